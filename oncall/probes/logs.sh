# The ends of the training processes' logs, and the telling lines before them. No file is read from its beginning.
EVENTS='atchdog|NCCL|[Ff]light [Rr]ecorder|dump signal|signal|ChildFailedError|exitcode|[Rr]estart|[Rr]endezvous|Traceback|Error|error:|heartbeat|desync|[Cc]heckpoint'
STEPS='iteration +[0-9]+ */|step: *[0-9]+|\bstep=[0-9]+'

# A name of two lines would be taken for two names, the second of them anywhere.
TWO_LINES='*
*'

temporary=$(mktemp -d) || exit 1
trap 'rm -rf "$temporary"' EXIT

# What the living processes write to is certain; the folder tells of those that are gone.
training_processes | while read -r pid rank; do
    for number in 1 2; do
        file=$($SUDO readlink "/proc/$pid/fd/$number" 2>/dev/null)
        case $file in /dev/*|pipe:*|socket:*|'') ;; *) printf '%s\t%s\n' "$rank" "$file" ;; esac
    done
done | sort -u >"$temporary/open"

if [ -n "$LOGS" ]; then
    if [ ! -d "$LOGS" ]; then
        part no-folder "path=$LOGS"
    else
        if [ -s "$temporary/open" ]; then
            # .../<run_id>/attempt_<n>/<local_rank>/stderr.log: the run's folder, with its other attempts.
            cut -f 2 "$temporary/open" | sed -n 's|/attempt_[0-9]*/[0-9]*/[^/]*$||p' | sort -u >"$temporary/roots"
        fi
        [ -s "$temporary/roots" ] || printf '%s\n' "$LOGS" >"$temporary/roots"
        while read -r root; do
            limit 10 find "$root" -maxdepth 5 -type f ! -path "$TWO_LINES" \( -name '*.log' -o -name '*.out' -o -name '*.err' -o -name stderr -o -name stdout \)
        done <"$temporary/roots" >"$temporary/under"
        limit 10 find "$LOGS" -maxdepth 1 -type f ! -path "$TWO_LINES" \( -name '*.log' -o -name '*.out' -o -name '*.err' \) >>"$temporary/under"
        sort -u "$temporary/under" -o "$temporary/under"
        part attempts
        while read -r root; do
            limit 5 find "$root" -maxdepth 3 -type d -name 'attempt_*' -exec stat -c '%Y %n' {} +
        done <"$temporary/roots"
    fi
fi
cut -f 2 "$temporary/open" | cat - "$temporary/under" 2>/dev/null | sort -u >"$temporary/files"
# Of a pipe nothing is read: it would be taken away from the process that it is for.
while read -r file; do
    $SUDO stat -c '%F|%Y %s %n' "$file"
done <"$temporary/files" 2>/dev/null | sed -n 's/^regular[^|]*|//p' | sort -rn >"$temporary/stats"
part found "files=$(wc -l <"$temporary/stats")"
head -n "$MOST_FILES" "$temporary/stats" | while read -r mtime size file; do
    rank=$(awk -F '\t' -v file="$file" '$2 == file { print $1; exit }' "$temporary/open")
    shared=$(awk -F '\t' -v file="$file" '$2 == file { print $1 }' "$temporary/open" | sort -u | wc -l)
    [ "$shared" -gt 1 ] && rank=
    part file "path=$file" "size=$size" "mtime=$mtime" "rank=$rank"
    $SUDO tail -c "$TAIL_BYTES" "$file"
    if [ "$size" -gt "$TAIL_BYTES" ]; then
        part earlier "path=$file" "size=$size" "mtime=$mtime" "rank=$rank"
        $SUDO tail -c "$SEARCH_BYTES" "$file" | head -c "-$TAIL_BYTES" >"$temporary/piece"
        { grep -aE "$EVENTS" "$temporary/piece" | tail -n 300; grep -aE "$STEPS" "$temporary/piece" | tail -n 40; } | cut -c -4000
    fi
done
# The last step once more, a moment later: a step that moves is the best proof that the job runs.
sleep 2
head -n "$MOST_FILES" "$temporary/stats" | while read -r mtime size file; do
    $SUDO tail -c 65536 "$file" | grep -aE "$STEPS" | tail -n 1 | cut -c -4000 >"$temporary/step"
    [ -s "$temporary/step" ] || continue
    part again "path=$file" "mtime=$($SUDO stat -c %Y "$file")"
    cat "$temporary/step"
done
if [ -n "$CHECKPOINTS" ]; then
    part checkpoints "path=$CHECKPOINTS"
    limit 5 find "$CHECKPOINTS" -maxdepth 1 -mindepth 1 -exec stat -c '%Y %n' {} + >"$temporary/checkpoints"
    code=$?
    sort -rn "$temporary/checkpoints" | head -n 20
    tracker=$CHECKPOINTS/latest_checkpointed_iteration.txt
    # A mount that did not answer in time is not asked again: nothing would end that.
    case $code in 124|137) ;; *) [ -f "$tracker" ] && part tracker && head -c 1000 "$tracker" ;; esac
fi
part end
