# The training processes of this node: alive or not, what they wait for, and the variables that tell their rank.
# Python processes of others, whose environment this login may not read: they may be ranks.
part access "user=$(id -un)" "sudo=${SUDO:+yes}" "others_hidden=$([ -d /proc/1 ] || echo yes)"
for directory in /proc/[0-9]*; do
    [ -n "$SUDO" ] || [ -r "$directory/environ" ] && continue
    tr '\0' ' ' <"$directory/cmdline" 2>/dev/null | grep -qE -e "${MATCH:-python|torchrun}" && cat "$directory/comm"
done 2>/dev/null

training=$(training_processes)
describe() {
    part process "pid=$1" "rank=$2" "sample=$3"
    $SUDO cat "/proc/$1/environ" 2>/dev/null | tr '\0' '\n' |
        grep -E '^(RANK|LOCAL_RANK|WORLD_SIZE|LOCAL_WORLD_SIZE|GROUP_RANK|MASTER_ADDR|MASTER_PORT|CUDA_VISIBLE_DEVICES|SLURM_(PROCID|LOCALID|NTASKS|NODEID)|NCCL_[A-Z0-9_]*|TORCH[A-Z0-9_]*)=' |
        sed 's/^/env /'
    sed 's/^/stat /' "/proc/$1/stat" 2>/dev/null
    printf 'rss %s\n' "$(field "$1" VmRSS)"
    printf 'threads %s\n' "$(field "$1" Threads)"
    printf 'wchan %s\n' "$($SUDO cat "/proc/$1/wchan" 2>/dev/null)"
    printf 'exe %s\n' "$($SUDO readlink "/proc/$1/exe" 2>/dev/null)"
    printf 'command %s\n' "$(tr '\0' ' ' <"/proc/$1/cmdline" 2>/dev/null | mask | head -c 1000)"
}
echo "$training" | while read -r pid rank; do
    [ -n "$pid" ] && describe "$pid" "$rank" 1
done
# A second look tells a process that stays stopped or in the kernel from one that was caught there for a moment.
sleep 0.5
echo "$training" | while read -r pid rank; do
    [ -n "$pid" ] || continue
    part again "pid=$pid" "rank=$rank"
    sed 's/^/stat /' "/proc/$pid/stat" 2>/dev/null
done
part agents
for directory in /proc/[0-9]*; do
    tr '\0' ' ' <"$directory/cmdline" 2>/dev/null | grep -qE 'torchrun|torch\.distributed\.(run|launch)|torch/distributed/run\.py|accelerate|deepspeed' || continue
    printf '%s %s\n' "${directory#/proc/}" "$(tr '\0' ' ' <"$directory/cmdline" | mask | head -c 300)"
done
part end
