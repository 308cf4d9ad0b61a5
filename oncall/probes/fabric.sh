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
    # Counters that the kernel tells over netlink alone, such as the optional ones of mlx5.
    if command -v rdma >/dev/null 2>&1; then
        part statistic "sample=$1"
        limit 4 rdma statistic show 2>/dev/null
    fi
}
look 1
sleep "$PAUSE_S"
look 2
part end
