#!/bin/sh
# PID 1 of a lab node: its own host name, accounts, kernel log, folders and homes; then it reaps orphans.
# usage: node.sh NAME OWN SHARED PREFIX...   OWN: this node's files; SHARED: the path at which every node sees
# its own `work`; PREFIX: where the interpreter lives, kept visible when it lies under a home.
set -eu
name=$1 own=$2 shared=$3
shift 3

hostname "$name"
mount --bind "$own/work" "$shared"
for file in passwd group shadow hosts; do
    mount --bind "$own/etc/$file" "/etc/$file"
done
if [ -e /etc/sudoers ]; then
    mount --bind "$own/etc/sudoers" /etc/sudoers
fi
mount --bind "$own/bin/dmesg" /usr/bin/dmesg
if [ -e /usr/bin/journalctl ]; then
    mount --bind "$own/bin/journalctl" /usr/bin/journalctl
fi

# The homes are the node's own. An interpreter under one of them is put back at its place, since a login
# without root may not walk through the real /root.
kept=0
for prefix; do
    kept=$((kept + 1))
    mkdir -p "$own/kept/$kept"
    mount --bind "$prefix" "$own/kept/$kept"
done
mount --bind "$own/home" /home
mount -t tmpfs -o mode=755 tmpfs /root
kept=0
for prefix; do
    kept=$((kept + 1))
    case $prefix in
    /home/* | /root/*)
        mkdir -p "$prefix"
        mount --bind "$own/kept/$kept" "$prefix"
        ;;
    esac
done
mount -t tmpfs -o mode=755 tmpfs /run
mkdir /run/sshd

echo ready
exec >/dev/null 2>&1
while :; do
    sleep 86400 &
    wait
done
