"""treeattn.py - a kernel of yours before the judge of treeattn, from Python. Needs numpy or torch.

    import treeattn

    @treeattn.kernel(view="paged", dtypes=("f16", "bf16"), head_dims=(64, 128), sum_block=64)
    def mine(c):                    # c.q, c.k, c.v, c.scale, and what the view adds: c.kv_indptr, ..
        ...
        return o, lse               # like c.q; [queries, heads] in float32. lse="none": return o

    treeattn.main(mine)             # python mine.py --trees 100

Parts of attention are judged as well, alone or beside it: main(mine, part, join).

    @treeattn.partial()             # c.q of some queries; c.k, c.v of all slots; c.tokens: slots; c.sees [queries, tokens], or None: all
    def part(c):
        return o, lse

    @treeattn.merge()               # c.o_in [inputs, queries, heads, d], c.lse_in [inputs, queries, heads]
    def join(c):
        return o, lse

The keywords are those of the first line of a child (verify/child/README.md). array="torch" gives torch tensors, on
device="cuda" if you say so; array="numpy" gives numpy arrays, bfloat16 as float32,
e4m3 and e5m2 as bytes; c.kv_dtype says which, c.k_scale and c.v_scale have a float for each KV head.
Raise treeattn.Unsupported("why") for a case that you do not take. What the kernel prints is not read.
A kernel may return a function without arguments instead, which returns o, lse: what came before is planning, and the function only
launches. On a GPU that is what becomes a CUDA graph, and what `treeattn bench-gpu --peer` times.

In pytest, a test for each case of a suite; the kernel stays in this process:

    @pytest.mark.parametrize("case", treeattn.cases("decode-1"))
    def test_decode(case):
        treeattn.check(case, mine)      # AssertionError with what is wrong and why; skipped where it does not apply

$TREEATTN is the program; without it, treeattn of the PATH.
"""
import importlib
import json
import mmap
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest


class Unsupported(Exception):
    pass


def need(name, folder=None):
    """The module of that name; without it no case is supported. folder: the environment variable that says in which folder it is."""
    at = os.environ.get(folder) if folder else None
    if folder and not at:
        raise Unsupported("%s does not say where %s is" % (folder, name))
    if at and at not in sys.path:
        sys.path.insert(0, at)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as e:
        raise Unsupported("%s is not installed: %s" % (name, e))


class Case:
    """Attributes: heads, kv_heads, head_dim, head_dim_v (of v and o), page_size, queries, scale, dtype, kv_dtype, soft_cap, window (of lists of pages; 0: none),
    and a tensor for each name of the view."""


_NUMPY = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4", "U8": "u1", "F8_E4M3": "u1", "F8_E5M2": "u1"}
_TORCH = (("float64", "F64"), ("float32", "F32"), ("float16", "F16"), ("bfloat16", "BF16"), ("int64", "I64"), ("int32", "I32"), ("uint8", "U8"),
          ("float8_e4m3fn", "F8_E4M3"), ("float8_e5m2", "F8_E5M2"))
_NAME = {"f64": "F64", "f32": "F32", "f16": "F16", "bf16": "BF16"}


def _header(path):
    with open(path, "rb") as f:  # what is written to it stays here
        data = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_COPY)
    n = struct.unpack("<Q", data[:8])[0]
    return json.loads(bytes(data[8 : 8 + n])), data, 8 + n


def _write(path, tensors):
    """tensors: name -> (dtype of safetensors, shape, bytes)."""
    head, at = {}, 0
    for name, (dtype, shape, raw) in tensors.items():
        head[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + len(raw)]}
        at += len(raw)
    text = json.dumps(head).encode()
    text += b" " * (-(8 + len(text)) % 64)
    with open(path, "xb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for _, _, raw in tensors.values():
            f.write(raw)


class _Numpy:
    def __init__(self, device):
        import numpy

        self.np = numpy

    def read(self, entry, data, at):
        np, (begin, end) = self.np, entry["data_offsets"]
        x = np.frombuffer(data, _NUMPY[entry["dtype"]], (end - begin) // np.dtype(_NUMPY[entry["dtype"]]).itemsize, at + begin)
        if entry["dtype"] == "BF16":
            x = (x.astype(np.uint32) << 16).view(np.float32)
        return x.reshape(entry["shape"])

    def raw(self, x, dtype):
        np = self.np
        x = np.ascontiguousarray(x)
        if dtype != "BF16":
            return x.astype(_NUMPY[dtype]).tobytes()
        bits = x.astype(np.float32).view(np.uint32).astype(np.uint64)
        near = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
        return np.where(np.isnan(x), np.uint16(0x7FC0), near).astype("<u2").tobytes()

    def strided(self, x, offset, shape, strides):
        return self.np.lib.stride_tricks.as_strided(x[offset:], shape, [n * x.itemsize for n in strides])

    def bits(self, packed, n):
        return self.np.unpackbits(packed, bitorder="little")[:n].astype(bool)

    def join(self, parts, dim, empty):
        return self.np.concatenate(parts, dim) if parts else self.np.zeros(empty, self.np.float32)

    def finish(self):
        pass

    def failed(self):
        return False


class _Torch:
    def __init__(self, device):
        import torch

        self.torch, self.device = torch, device
        t = torch
        self.type = {"F64": t.float64, "F32": t.float32, "F16": t.float16, "BF16": t.bfloat16, "I64": t.int64, "I32": t.int32, "U8": t.uint8}
        for name, kind in (("F8_E4M3", "float8_e4m3fn"), ("F8_E5M2", "float8_e5m2")):
            self.type[name] = getattr(t, kind, t.uint8)  # an old torch: codes
        self.stage = None

    def read(self, entry, data, at):
        t, (begin, end) = self.torch, entry["data_offsets"]
        if begin == end:
            return t.empty(entry["shape"], dtype=self.type[entry["dtype"]], device=self.device)
        x = t.frombuffer(data, dtype=t.uint8, count=end - begin, offset=at + begin)
        return self.upload(x).view(self.type[entry["dtype"]]).reshape(entry["shape"])

    def upload(self, x):
        """Bytes of a file to the device. GB of a mapped file go by pinned memory, which all cores fill: several times as fast."""
        t, piece = self.torch, 64 << 20
        if self.device == "cpu" or len(x) < 2 * piece:
            return x.to(self.device)
        if self.stage is None:
            self.stage = [(t.empty(piece, dtype=t.uint8, pin_memory=True), t.cuda.Event()) for _ in range(2)]
        y = t.empty(len(x), dtype=t.uint8, device=self.device)
        for i, at in enumerate(range(0, len(x), piece)):
            there, sent = self.stage[i % 2]
            sent.synchronize()
            part = there[: min(piece, len(x) - at)]
            part.copy_(x[at : at + len(part)])
            y[at : at + len(part)].copy_(part, non_blocking=True)
            sent.record()
        return y

    def raw(self, x, dtype):
        t = self.torch  # contiguous() leaves the strides of a dimension of one as they are
        x = x.detach().to(self.type[dtype]).cpu().clone(memory_format=t.contiguous_format)
        return x.view(t.uint8).numpy().tobytes() if x.numel() else b""

    def strided(self, x, offset, shape, strides):
        return self.torch.as_strided(x, shape, strides, offset)

    def bits(self, packed, n):
        t = self.torch
        return ((packed[:, None] >> t.arange(8, device=self.device)) & 1).reshape(-1)[:n].bool()

    def join(self, parts, dim, empty):
        return self.torch.cat(parts, dim) if parts else self.torch.zeros(empty)

    def finish(self):
        if self.device != "cpu":
            self.torch.cuda.synchronize()

    def graph(self, f, c, inputs):
        """What a CUDA graph of f gives, that is recorded while the inputs are zero, and replayed on what they are now."""
        keep = [x.clone() for x in inputs]
        for x in inputs:
            x.zero_()
        recorded, answer = self.record(_launches(f, c))
        for x, y in zip(inputs, keep):
            x.copy_(y)
        recorded.replay()
        return answer

    def record(self, launch):
        t = self.torch
        side = t.cuda.Stream()
        side.wait_stream(t.cuda.current_stream())
        with t.cuda.stream(side):  # what is compiled or allocated when it first runs
            for _ in range(2):
                launch()
        t.cuda.current_stream().wait_stream(side)
        recorded = t.cuda.CUDAGraph()
        with t.cuda.graph(recorded):
            answer = launch()
        return recorded, answer

    def time(self, f, c, ask):
        """What f gives, microseconds of each replay, and milliseconds of planning or None: as verify/bench/bench_gpu.h times plans."""
        t, plan_ms = self.torch, None
        launch = f(c)
        if callable(launch):  # what is compiled or allocated once was not planning
            launch()
            t.cuda.synchronize()
            begin = time.perf_counter()
            launch = f(c)
            t.cuda.synchronize()
            plan_ms = 1e3 * (time.perf_counter() - begin)
        else:
            launch = _launches(f, c)
        recorded, answer = self.record(launch)
        written = answer if isinstance(answer, (tuple, list)) else [answer]
        flush = t.empty(ask["flush_bytes"] // 8, dtype=t.int64, device=self.device)

        def replay(n):
            events = [[t.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(n)]
            for i, (begin, end) in enumerate(events):
                for x in written:
                    x.fill_(float("nan"))
                flush.fill_(i)
                if ask["flush_reads"]:
                    flush.sum()
                begin.record()
                recorded.replay()
                end.record()
            t.cuda.synchronize()
            return [1e3 * begin.elapsed_time(end) for begin, end in events]

        begin = time.perf_counter()
        while True:  # until memory has been busy for a while, as it is when ours are timed
            last = replay(3)[-1]
            if time.perf_counter() - begin > 0.05:
                break
        us = replay(int(max(5, min(ask["reps"], 50e3 / max(last, 1)))))
        answer = [x.cpu() for x in written]
        del recorded, launch, flush
        return answer if len(answer) > 1 else answer[0], us, plan_ms

    def release(self):
        """Memory that is kept for later goes back: other children are on the device, too."""
        self.torch.cuda.empty_cache()

    def failed(self):
        """Takes the error that a launch left behind, lest the next case meets it. Whether the device gives one again."""
        for _ in range(2):
            try:
                self.torch.empty(1, device=self.device).fill_(0).cpu()
                return False
            except Exception:
                pass
        return True


def _marker(point):
    def keywords(**caps):
        def mark(f):
            f.point, f.caps = point, caps
            return f

        return mark

    return keywords


kernel, partial, merge = _marker("attention"), _marker("partial"), _marker("merge")


def _groups(c, arrays):
    """The groups of a request at point "partial", one by one, and where their rows begin."""
    qo, kv, at = (t.tolist() for t in (c.qo_indptr, c.kv_indptr, c.mask_indptr))
    for g in range(len(qo) - 1):
        part = Case()
        part.__dict__.update(c.__dict__)
        part.queries, part.q = qo[g + 1] - qo[g], c.q[qo[g] : qo[g + 1]]
        part.tokens, part.sees = c.kv_indices[kv[g] : kv[g + 1]], None
        if at[g + 1] > at[g]:
            shape = (part.queries, kv[g + 1] - kv[g])
            part.sees = arrays.bits(c.mask[at[g] : at[g + 1]], shape[0] * shape[1]).reshape(shape)
        yield part


def levels(c):
    """The levels of view "levels", each with qo_indptr, kv_indptr, kv_indices, last_page_len of its own."""
    at, base = c.level_ptr.tolist(), 0
    for i in range(len(at) - 1):
        x = Case()
        x.qo_indptr, x.kv_indptr = (y[at[i] + i : at[i + 1] + i + 1] for y in (c.qo_indptr, c.kv_indptr))
        count = int(x.kv_indptr[-1])
        x.kv_indices, x.last_page_len = c.kv_indices[base : base + count], c.last_page_len[at[i] : at[i + 1]]
        base += count
        yield x


def block_table(c):
    """Of view "block_table" in torch: the table, with page 0 where a row is junk, behind its query's last page."""
    import torch

    first = torch.arange(c.block_table.shape[1], device=c.block_table.device) * c.page_size
    return torch.where(first[None] < c.seq_lens[:, None], c.block_table, 0).to(torch.int32)


def dense(c, least):
    """Of view "slots" in torch: the slots that anybody sees, and who sees which [queries, slots], both sides powers of two from `least` on."""
    import torch

    tokens, at = torch.unique(c.kv_indices.long(), return_inverse=True)
    n, m = (max(least, 1 << (x - 1).bit_length()) for x in (c.queries, max(1, len(tokens))))
    if n * m > 1 << 28:
        raise Unsupported("a mask of %d x %d" % (n, m))
    row = torch.repeat_interleave(torch.arange(c.queries, device=at.device), c.kv_indptr.long().diff())
    sees = torch.zeros(n, m, dtype=torch.bool, device=at.device)
    sees[row, at] = True
    return tokens, sees


def _launches(f, c):
    """A function that launches what f does, after its planning, if it says what that is."""
    launch = f(c)
    return launch if callable(launch) else lambda: f(c)


def _answer(f, c):
    answer = f(c)
    return answer() if callable(answer) else answer


def _run(f, arrays, line, caps):
    """Answers a request; what there is to add to "done"."""
    head, data, at = _header(line["in"])
    c, more = Case(), {}
    for key in ("heads", "kv_heads", "head_dim", "page_size", "queries", "scale", "dtype"):
        setattr(c, key, line.get(key))
    c.soft_cap, c.sinks, c.k_scale, c.v_scale = line.get("soft_cap", 0), None, None, None
    c.kv_dtype = line.get("kv_dtype", c.dtype)
    c.head_dim_v = line.get("head_dim_v", c.head_dim)
    for name, entry in head.items():
        setattr(c, name, arrays.read(entry, data, at))
    if "pool" in line:
        pool, data, at = _header(line["pool"])
        for name, entry in pool.items():
            x = arrays.read(entry, data, at)
            setattr(c, name, x.reshape(-1, *x.shape[2:]) if line["view"] in ("slots", "masked") else x)
    c.window = int(c.window[0]) if "window" in head else 0
    if hasattr(c, "kv_strides"):
        shape, both = c.kv_shape.tolist(), c.kv_strides.tolist()
        c.k, c.v = (arrays.strided(c.kv, x[0], shape, x[1:]) for x in both)
        c.v = c.v[..., : c.head_dim_v]
    elif hasattr(c, "kv"):
        c.k, c.v = c.kv[:, 0], c.kv[:, 1]
    elif "k" in head and "v" not in head:
        c.v = c.k[..., : c.head_dim_v]  # V is the first elements of K's rows
    no_lse = caps.get("lse", "e") == "none"
    if "time" in line:
        answer, more["us"], more["plan_ms"] = arrays.time(f, c, line["time"])
        answers = [answer]
    elif line.get("graph"):
        answers = [arrays.graph(f, c, [getattr(c, x) for x in ("q", "k", "v", "kv") if x in head])]
    else:
        answers = [_answer(f, part) for part in (_groups(c, arrays) if f.point == "partial" else [c])]
    arrays.finish()
    o = arrays.join([x if no_lse else x[0] for x in answers], 0, (0, c.heads, c.head_dim_v))
    tensors = {"o": (_NAME[c.dtype], tuple(o.shape), arrays.raw(o, _NAME[c.dtype]))}
    if not no_lse:
        by_head = caps.get("lse_order", "qh") == "hq"
        lse = arrays.join([x[1] for x in answers], int(by_head), (c.heads, 0) if by_head else (0, c.heads))
        kind = "F64" if c.dtype == "f64" else "F32"
        tensors["lse"] = (kind, tuple(lse.shape), arrays.raw(lse, kind))
    _write(line["out"], tensors)
    return more


def _serve(functions, judge, me):
    caps, at = {}, {f.point: f for f in functions}
    for f in functions:
        caps.update(f.caps)
    caps["points"] = list(at)
    device, package, arrays, missing = caps.pop("device", "cpu"), caps.pop("package", None), None, None
    try:
        arrays = {"numpy": _Numpy, "torch": _Torch}[caps.pop("array", "numpy")](device)
        if package:
            caps["version"] = "%s_%s" % (package, importlib.import_module("importlib.metadata").version(package))
    except ModuleNotFoundError as e:
        missing = "%s is not installed" % (package or e.name)
    for can in ("graph", "time"):
        caps.setdefault(can, device != "cpu")
    caps.setdefault("name", functions[0].__name__)

    def say(x):
        me.write(json.dumps(x) + "\n")
        me.flush()

    for text in judge:
        line = json.loads(text)
        if "hello" in line:
            say({"hello": 1, **{k: list(v) if isinstance(v, tuple) else v for k, v in caps.items()}})
        elif "bye" in line:
            break
        else:
            number = line["run"]
            try:
                if missing:
                    raise Unsupported(missing)
                more = _run(at[line["point"]], arrays, line, caps)
                if more:
                    arrays.release()
                say({"done": number, **more})
            except Unsupported as e:
                say({"unsupported": number, "why": str(e)})
            except MemoryError as e:
                say({"memory": number, "why": str(e) or "MemoryError"})
            except Exception as e:  # a device that has failed for good: the judge starts another process
                fault = arrays.failed()
                say({"device_fault" if fault else "error": number, "why": "%s: %s" % (type(e).__name__, str(e)[:200])})


def main(*functions):
    """Serves the judge; started by a person, starts the judge with this file and the arguments given."""
    try:
        os.fstat(3), os.fstat(4)
        serves = os.environ.get("TREEATTN_CHILD") == "1"
    except OSError:
        serves = False
    if serves:
        return _serve(functions, os.fdopen(3, "r"), os.fdopen(4, "w"))
    program = _program()
    command = "exec %s %s" % (_quote(sys.executable), _quote(os.path.abspath(sys.argv[0])))
    os.execvp(program, [program, "verify", "--exec", command] + sys.argv[1:])


def record(path, q=None, k=None, v=None, o=None, lse=None, lse_base="e", scale=None, declares=None, **more):
    """A step of a running engine into a new file, for `treeattn judge`. Tensors of torch or numpy:

    q, o [queries, heads, d]; k, v [pages, page, KV heads, d], of which only the pages in use are kept; lse [queries, heads].
    more: block_table and seq_lens, or kv_indptr, kv_indices and kv_last_page_len; query_start_loc (several queries a request);
    soft_cap, window, sinks, k_scale, v_scale. declares: how your kernel computes, dict(probability="bf16", sum_block=64).
    """

    def host(x):
        return x.detach().cpu() if hasattr(x, "detach") else x

    def entry(x, kind=None):
        if hasattr(x, "detach"):
            import torch

            names = {getattr(torch, t): n for t, n in _TORCH if hasattr(torch, t)}
            x = x.detach().cpu().contiguous()
            if kind:
                x = x.to({n: t for t, n in names.items()}[kind])
            return kind or names[x.dtype], tuple(x.shape), x.reshape(-1).view(torch.uint8).numpy().tobytes()
        import numpy as np

        x = np.ascontiguousarray(x, _NUMPY[kind] if kind else None)
        return kind or {d: n for n, d in _NUMPY.items() if n[0] != "B" and n[:2] != "F8"}[x.dtype.str.replace("|", "")], x.shape, x.tobytes()

    tensors, lists = {}, {"block_table": None, "kv_indices": None}
    for name, x in more.items():
        if name in ("soft_cap", "window"):
            tensors[name] = ("F64", (1,), struct.pack("<d", x)) if name == "soft_cap" else ("I64", (1,), struct.pack("<q", x))
        elif x is not None and name not in lists:
            tensors[name] = entry(x, "F32" if name in ("sinks", "k_scale", "v_scale") else None)
    name = "block_table" if more.get("block_table") is not None else "kv_indices"
    pages = host(more[name])
    if k is not None:  # the pages in use, numbered anew; a row of a block table is junk behind its last page
        import numpy as np

        pages = np.array(pages, np.int64)
        used = np.ones(pages.shape, bool)
        if name == "block_table":
            used = np.arange(pages.shape[1])[None] * k.shape[1] < np.array(host(more["seq_lens"]), np.int64)[:, None]
        kept, number = np.unique(pages[used], return_inverse=True)
        pages = np.full(pages.shape, -1, np.int64)
        pages[used] = number.reshape(-1)
        pages = pages.astype(np.int32)
        if hasattr(k, "detach"):
            import torch

            kept = torch.from_numpy(kept).to(k.device)
        tensors["k"], tensors["v"] = entry(k[kept]), entry(v[kept])
    tensors[name] = entry(pages)
    for key, x in (("q", q), ("o", o)):
        if x is not None:
            tensors[key] = entry(x)
    if lse is not None:
        tensors["lse"] = entry(lse * (0.6931471805599453 if str(lse_base) == "2" else 1), "F32")
    if scale is not None:
        tensors["scale"] = ("F64", (1,), struct.pack("<d", scale))
    if declares is not None:
        text = json.dumps(declares).encode()
        tensors["declares"] = ("U8", (len(text),), text)
    _write(path, tensors)


def _program():
    return os.environ.get("TREEATTN", "treeattn")


def cases(suite):
    """The case strings of a suite (treeattn list suites), in its order."""
    listed = subprocess.run([_program(), "list", suite, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if listed.returncode:
        raise ValueError(listed.stderr.strip())
    return [x["case"] for x in json.loads(listed.stdout)]


def check(case, *functions):
    """Judges kernels in this process on one case. AssertionError: it failed; unittest.SkipTest: it does not apply."""
    folder = tempfile.mkdtemp(prefix="treeattn.")
    to_me, to_judge = os.path.join(folder, "to_me"), os.path.join(folder, "to_judge")
    try:
        os.mkfifo(to_me)
        os.mkfifo(to_judge)
        # the child of the judge hands lines on: to here, and back
        child = "cat <%s >&4 4>&- & exec 4>&-; cat <&3 >%s" % (_quote(to_judge), _quote(to_me))
        server = threading.Thread(target=_serve_pipes, args=(functions, to_me, to_judge), daemon=True)
        server.start()
        command = [_program(), "verify", "--case", case, "--exec", child, "--children", "1", "--no-shrink", "--json"]
        run = subprocess.run(command + _type_of(case, functions), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for path in (to_me, to_judge):  # where no child came, the server still waits for one
            os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK))
        server.join(10)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    rows = json.loads(run.stdout) if run.stdout.strip() else []
    bad = [x for x in rows if x["verdict"] == "FAIL"]
    if bad:
        raise AssertionError("\n".join("%s %s: %s\n  %s\n  %s" % (x["case"], x["code"], x["why"], x["cause"] or "no cause is known", x["string"]) for x in bad))
    if not any(x["verdict"] in ("PASS", "MARGINAL") for x in rows):
        if rows:
            raise unittest.SkipTest(rows[0]["why"])
        raise AssertionError(run.stderr.strip() or "the judge ended with %d" % run.returncode)


def _type_of(case, functions):
    """As in treeattn verify --suite: a type that the kernel takes, where it does not take that of the case."""
    takes = [x for f in functions for x in f.caps.get("dtypes", ())]
    asks = [x[6:] for x in case.split(";") if x.startswith("dtype=")] or ["f16"]
    return ["--dtype", takes[0]] if takes and asks[0] not in takes else []


def _serve_pipes(functions, to_me, to_judge):
    with open(to_me) as judge, open(to_judge, "w") as me:
        try:
            _serve(functions, judge, me)
        except BrokenPipeError:
            pass  # the judge has gone


def _quote(s):
    return "'" + s.replace("'", "'\\''") + "'"
