# One host and a switch for each name, each in a network of its own, all with lldpd; then a recording
# of the worker: lldp_network.sh FOLDER PYTHON SWITCH...
set -eu
folder=$1 python=$2
shift 2
mount -t proc proc /proc
mount -t tmpfs run /run    # where lldpd has its socket: not that of this machine
mkdir -p /run/lldpd
ip link set lo up
number=0
for switch in "$@"; do
  number=$((number + 1))
  unshare --net sh -c 'echo $$ > "$1"; exec sleep infinity' sh "/run/switch-$number" &
  until [ -s "/run/switch-$number" ]; do :; done
  inside="nsenter --target=$(cat "/run/switch-$number") --net --"
  ip link add "eth-rdma$number" type veth peer name etp1 netns "$(cat "/run/switch-$number")"
  ip link set "eth-rdma$number" up
  $inside ip link set etp1 up
  echo "configure system hostname $switch" > "/run/switch-$number.conf"
  $inside lldpd -d -u "/run/switch-$number.socket" -I etp1 -O "/run/switch-$number.conf" 2> "/run/switch-$number.log" &
done
lldpd -d -I 'eth-rdma*' 2> /run/lldpd.log &
until [ "$(lldpcli -f keyvalue show neighbors 2> /run/lldpcli.log | grep -c 'chassis.name=')" = "$number" ]; do
  sleep 0.1
done
"$python" -m worker --record="$folder/recorded" --node-name=gpu-01
