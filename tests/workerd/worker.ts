import { inspect } from "node:util";
import { type Signer, SignerFault } from "#functions/signer/signer.ts";
import { createWorker, type Worker, type WorkerContext } from "#functions/worker.ts";
import { systemClock } from "#kit/clock.ts";
import { type Entropy, systemEntropy } from "#kit/entropy.ts";
import type { Environment } from "#kit/env.ts";
import { createTestLog } from "../fakes/log.ts";
import { createTestObserver } from "../fakes/observer.ts";
import {
  decodeSettings,
  encodeAnswer,
  encodeSigningRequest,
  type SigningAnswer,
  settingsHeader,
} from "./settings.ts";

const createRecorder = () => ({ log: createTestLog(), ...createTestObserver() });
type Recorder = ReturnType<typeof createRecorder>;

const traceOf = ({ log, observations }: Recorder) => ({
  lines: log.lines.map(({ level, message, fields }) => ({
    level,
    message,
    fields: inspect(fields, { depth: 12, maxStringLength: null }),
  })),
  observations: [...observations],
});

/** Signs at the test's signer. */
const signAt =
  (url: string): Signer["sign"] =>
  async (request) => {
    const response = await fetch(url, { method: "POST", body: encodeSigningRequest(request) });
    const answer: SigningAnswer = await response.json();
    if ("issued" in answer) return answer.issued;
    throw answer.isSignerFault ? new SignerFault(answer.fault) : new Error(answer.fault);
  };

/** Creates the worker of `functions/worker.ts` with configuration, clock, peer, log and signer of the test core of each request. */
const createTestWorker = (): Worker => {
  const recorders = new WeakMap<Request, Recorder>();
  // The worker parses an environment once. Ordered ids follow the latest clock that used their entropy, and each test core has a clock of its own.
  const cores = new Map<unknown, { env: Environment; entropy: Entropy }>();
  const answered = new Set<string>();
  const worker = createWorker((request) => {
    const {
      env: sent,
      now,
      remoteAddress,
      certificate,
      listener,
      signerUrl,
    } = decodeSettings(request.headers.get(settingsHeader) ?? "");
    const { log, observe } = recorders.get(request) ?? createRecorder();
    const core = cores.get(sent.SVC_DATABASE_URL) ?? { env: sent, entropy: { ...systemEntropy } };
    cores.set(sent.SVC_DATABASE_URL, core);
    const der = certificate === null ? null : Uint8Array.fromBase64(certificate);
    return {
      ...core,
      clock: { ...systemClock, now: () => now },
      log,
      observe,
      ...(signerUrl === null
        ? {}
        : { wrapSigner: (signer: Signer) => ({ ...signer, sign: signAt(signerUrl) }) }),
      peerOf: () => ({ remoteAddress, certificate: der, listener }),
    };
  });
  return {
    async fetch(request: Request, env: Record<string, string | undefined>, context: WorkerContext) {
      if (!request.headers.has(settingsHeader)) return Response.json([...answered]);
      const recorder = createRecorder();
      recorders.set(request, recorder);
      const answer = await worker.fetch(request, env, context);
      const body = await answer.arrayBuffer();
      if (answer.status < 400) answered.add(`${request.method} ${new URL(request.url).pathname}`);
      const head = {
        status: answer.status,
        headers: [...answer.headers],
        trace: traceOf(recorder),
      };
      return new Response(encodeAnswer(head, body));
    },
  };
};

export default createTestWorker();
