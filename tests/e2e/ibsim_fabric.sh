# usage: ibsim_fabric.sh FOLDER: runs ibsim on FOLDER/net in a network of its own, whose name for
# sockets is its own, too, and answers requests: each line of FOLDER/requests is a command of
# ibsim's console, or `dump NODE FILE`, the output of ibnetdiscover on the host of this adapter.
set -eu
cd "$1"
mkfifo console
ibsim -s net <console >simulator.log 2>&1 &
exec 3>console
while read -r verb rest; do
  case $verb in
    dump)
      host=${rest% *} file=${rest#* }
      SIM_HOST=$host ibsim-run ibnetdiscover >"$file" 2>>ibnetdiscover.log
      ;;
    *)
      asked=$(grep -o 'sim>' simulator.log | wc -l)
      echo "$verb $rest" >&3
      # The console says its prompt again once the command is carried out.
      while [ "$(grep -o 'sim>' simulator.log | wc -l)" = "$asked" ]; do sleep 0.05; done
      ;;
  esac
done <requests
echo quit >&3
wait
