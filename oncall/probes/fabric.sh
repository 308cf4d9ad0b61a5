# InfiniBand and RoCE ports: state, rate and every counter; twice, so that growth shows.
if [ ! -d /sys/class/infiniband ] || [ -z "$(ls -A /sys/class/infiniband 2>/dev/null)" ]; then
    part no-ports
    part end
    exit 0
fi
look() {
    for port in /sys/class/infiniband/*/ports/*; do
        [ -d "$port" ] || continue
        device=${port#/sys/class/infiniband/}
        part port "sample=$1" "device=${device%%/*}" "port=${port##*/}"
        for name in state phys_state rate link_layer; do
            [ -r "$port/$name" ] && printf '%s %s\n' "$name" "$(cat "$port/$name" 2>/dev/null)"
        done
        for file in "$port"/counters/* "$port"/hw_counters/*; do
            [ -r "$file" ] && printf 'counter %s %s\n' "${file##*/}" "$(cat "$file" 2>/dev/null)"
        done
    done
}
look 1
sleep "$PAUSE_S"
look 2
part end
