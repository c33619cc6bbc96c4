#!/bin/sh
# Stands in for systemctl where no systemd runs: starts the unit's program as its user, if its condition holds, and stops it. Keeps what it
# was told in /run/stand-in: `calls`, a line for each, and the files `enabled`, `masked` and `pid`.
state=/run/stand-in
unit=/usr/lib/systemd/system/svc-collector.service
setting() { sed -n "s/^$1=//p" "$unit"; }
# A process that has ended and waits for its parent has no program.
runs() { [ -e $state/pid ] && [ -e "/proc/$(cat $state/pid)/exe" ]; }

stop() {
  if runs; then kill -TERM "$(cat $state/pid)"; fi
  while runs; do sleep 0.05; done
  rm -f $state/pid
}

start() {
  if [ -e $state/masked ]; then echo "Unit svc-collector.service is masked." >&2; exit 1; fi
  [ -e "$(setting ConditionPathExists)" ] || return 0
  $(setting ExecStartPre | sed 's/^[-+]*//')
  setpriv --reuid "$(setting User)" --regid "$(setting Group)" --init-groups env -i PATH=/usr/bin:/bin \
    $(setting ExecStart) </dev/null >>$state/log 2>&1 &
  echo $! >$state/pid
}

case $1 in
  is-enabled)
    for word in masked enabled; do
      if [ -e $state/$word ]; then echo $word; [ $word = enabled ]; exit; fi
    done
    echo disabled
    exit 1
    ;;
  is-active) runs; exit ;;
  is-failed) [ -e $state/pid ] && ! runs; exit ;;
esac
echo "$1" >>$state/calls
case $1 in
  enable) touch $state/enabled ;;
  disable) rm -f $state/enabled ;;
  mask) touch $state/masked ;;
  unmask) rm -f $state/masked ;;
  start) runs || start ;;
  stop) stop ;;
  restart) stop; start ;;
esac
