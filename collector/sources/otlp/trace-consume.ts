import type { IncomingHttpHeaders } from "node:http";
import { isRecordedBySender, type Tracer } from "#kit/tracing/tracer.ts";
import type { Consume } from "./consumer.ts";

/**
 * Records each export request as a trace of its own, from its last byte to the outcome. A sender's `traceparent` cannot make the collector
 * record, but can prevent it: our own programs' exports of spans do so, because tracing those would cause further exports.
 */
export const traceConsume =
  (consume: Consume, source: string, tracer: Tracer): Consume =>
  (signal, request, isWanted, traceparent) =>
    tracer.serve(
      {
        name: `receive ${signal.path}`,
        kind: "server",
        facts: { "svc.source": source, "svc.bytes": request.payload.length },
      },
      isRecordedBySender(traceparent) ? undefined : traceparent,
      async (span) => {
        const outcome = await consume(signal, request, isWanted, traceparent);
        span.set({ "svc.outcome": outcome.status });
        if (outcome.status === "unavailable") span.fail();
        return outcome;
      },
    );

/** Returns the `traceparent` of a request by HTTP or gRPC. */
export const readTraceparent = ({ traceparent }: IncomingHttpHeaders): string | undefined =>
  typeof traceparent === "string" ? traceparent : undefined;
