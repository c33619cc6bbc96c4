import type { IncomingHttpHeaders } from "node:http";
import { isRecordedBySender, type Tracer } from "#kit/tracing/tracer.ts";
import type { Consume } from "./consumer.ts";

/**
 * Makes each export request a trace of its own, from its last byte to the outcome. A sender cannot make the collector record, only keep
 * it from recording: an export of spans of this or another program of ours says so in its `traceparent`, or tracing would cause traces.
 */
export const traceConsume =
  (consume: Consume, source: string, tracer: Tracer): Consume =>
  (signal, payload, isWanted, traceparent) =>
    tracer.serve(
      {
        name: `receive ${signal.path}`,
        kind: "server",
        facts: { "svc.source": source, "svc.bytes": payload.length },
      },
      isRecordedBySender(traceparent) ? undefined : traceparent,
      async (span) => {
        const outcome = await consume(signal, payload, isWanted, traceparent);
        span.set({ "svc.outcome": outcome.status });
        if (outcome.status === "unavailable") span.fail();
        return outcome;
      },
    );

/** Returns the `traceparent` of a request: that of OpenTelemetry's context, by HTTP or gRPC. */
export const readTraceparent = ({ traceparent }: IncomingHttpHeaders): string | undefined =>
  typeof traceparent === "string" ? traceparent : undefined;
