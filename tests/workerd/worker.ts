import { inspect } from "node:util";
import { systemClock } from "../../functions/kit/clock.ts";
import { systemEntropy } from "../../functions/kit/entropy.ts";
import { createWorker, type Worker, type WorkerContext } from "../../functions/worker.ts";
import { createTestLog, type TestLog } from "../fakes/log.ts";
import { decodeSettings, logHeader, logPath, type SentLogLine, settingsHeader } from "./settings.ts";

/** The worker of `functions/worker.ts`, except that configuration, clock, peer and log are the test core's, request by request. */
const createTestWorker = (): Worker => {
  const logs = new Map<string, TestLog>();
  const settingsOf = (request: Request) => decodeSettings(request.headers.get(settingsHeader) ?? "");
  const logOf = (request: Request): TestLog => logs.get(request.headers.get(logHeader) ?? "") ?? createTestLog();
  const worker = createWorker((request) => {
    const { env, now, remoteAddress, certificate, listener } = settingsOf(request);
    const der = certificate === null ? null : Uint8Array.fromBase64(certificate);
    return {
      env,
      clock: { ...systemClock, now: () => now },
      entropy: systemEntropy,
      log: logOf(request),
      peerOf: () => ({ remoteAddress, certificate: der, listener }),
    };
  });
  return {
    async fetch(request: Request, env: Record<string, string | undefined>, context: WorkerContext) {
      const { pathname } = new URL(request.url);
      if (pathname.startsWith(logPath)) {
        const id = pathname.slice(logPath.length);
        const sent: SentLogLine[] = (logs.get(id)?.lines ?? []).map(({ level, message, fields }) => ({
          level,
          message,
          fields: inspect(fields, { depth: 12, maxStringLength: null }),
        }));
        logs.delete(id);
        return Response.json(sent);
      }
      const id = crypto.randomUUID();
      logs.set(id, createTestLog());
      const marked = new Request(request);
      marked.headers.set(logHeader, id);
      const answer = await worker.fetch(marked, env, context);
      const response = new Response(answer.body, answer);
      response.headers.set(logHeader, id);
      return response;
    },
  };
};

export default createTestWorker();
