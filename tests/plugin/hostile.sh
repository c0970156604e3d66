# hostile.sh KIND - a child that says hello and then does what KIND says.
read -r line <&3
echo '{"hello":1,"name":"hostile","view":"slots"}' >&4

# tensors HEADER DATA: a file of tensors to standard output
tensors() {
    printf "\\$(printf %o ${#1})\\0\\0\\0\\0\\0\\0\\0%s$2" "$1"
}

while read -r line <&3; do
    n=$(printf %s "$line" | sed 's/.*"run":\([0-9]*\).*/\1/')
    in=$(printf %s "$line" | sed 's/.*"in":"\([^"]*\)".*/\1/')
    out=$(printf %s "$line" | sed 's/.*"out":"\([^"]*\)".*/\1/')
    case $1 in
    segv) kill -SEGV $$ ;;
    abort) kill -ABRT $$ ;;
    loop) while :; do :; done ;;
    exit0) echo 'verify: 1 cases, 1 passed, 0 marginal, 0 failed, 0 skipped'; exit 0 ;;
    exec) exec /bin/true ;;
    close) exec 4>&-; sleep 100 ;;
    bomb) b() { sleep 0.1; b & b & wait; }; b; sleep 100 ;; # slow, so that others can live beside it
    memory) exec tail /dev/zero ;;
    kill) kill -9 $PPID; sleep 1 ;;
    input) echo junk >>"$in" ;;
    stale) ;;
    stderr) head -c 1000000000 /dev/zero >&2; echo "{\"error\":$n,\"why\":\"tired\"}" >&4; continue ;;
    junk) echo junk >&4 ;;
    long) head -c 200000 /dev/zero | tr '\0' a >&4; sleep 100 ;;
    link) ln -s /etc/passwd "$out" ;;
    garbage) head -c 1000 /dev/urandom >"$out" ;;
    fifo) mkfifo "$out" ;;
    shape) tensors '{"o":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"lse":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}' abcd >"$out" ;;
    dtype) tensors '{"o":{"dtype":"I32","shape":[1],"data_offsets":[0,4]},"lse":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}' abcd >"$out" ;;
    half) tensors '{"o":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}' abcd >"$out" ;;
    fault) echo "{\"device_fault\":$n,\"why\":\"CUDA error 700\"}" >&4; continue ;;
    other) echo "{\"done\":$((n + 1))}" >&4; continue ;;
    no) echo "{\"unsupported\":$n,\"why\":\"no\"}" >&4; continue ;;
    esac
    echo "{\"done\":$n}" >&4
done
