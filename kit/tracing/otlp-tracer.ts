import {
  type Context,
  type Span as OtelSpan,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  trace,
} from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { W3CTraceContextPropagator } from "@opentelemetry/core";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { resourceFromAttributes } from "@opentelemetry/resources";
import {
  BatchSpanProcessor,
  ParentBasedSampler,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from "@opentelemetry/sdk-trace";
import { systemClock, withTimeout } from "../clock.ts";
import { systemEntropy } from "../entropy.ts";
import type { TracesConfig } from "./config.ts";
import type { Span, SpanStart, TracedService, Tracer } from "./tracer.ts";

const closeMs = 2000;
/** For an export with its retries. Their timer keeps the process alive, so this limits how long a stop takes. */
const exportMs = 3000;
const kinds = {
  server: SpanKind.SERVER,
  client: SpanKind.CLIENT,
  internal: SpanKind.INTERNAL,
} as const;

/**
 * Creates a tracer that sends spans by OTLP over HTTP in batches, in the background; it drops spans that the receiver does not accept in time.
 * Samples `samplePercent` of the traces that start here, and follows the caller's decision for the others. Exports have a `traceparent` without
 * the sampled flag, so that a receiver that traces itself does not record them.
 */
export const createOtlpTracer = (
  { url, headers, samplePercent }: TracesConfig,
  { name, version, hostname }: TracedService,
): Tracer => {
  const ids = systemEntropy.bytes(24).toHex();
  const exportTraceparent = `00-${ids.slice(0, 32)}-${ids.slice(32)}-00`;
  const exporter = new OTLPTraceExporter({
    url,
    headers: async () => ({ ...headers?.reveal(), traceparent: exportTraceparent }),
    timeoutMillis: exportMs,
  });
  const provider = new TracerProvider({
    resource: resourceFromAttributes({
      "service.name": name,
      "service.version": version,
      ...(hostname === undefined ? {} : { "host.name": hostname }),
    }),
    sampler: new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(samplePercent / 100) }),
    spanProcessors: [new BatchSpanProcessor({ exporter })],
  });
  const tracer = provider.getTracer(name, version);
  // Not registered globally: no library of this process reports spans of its own.
  const contexts = new AsyncLocalStorageContextManager().enable();
  const propagator = new W3CTraceContextPropagator();

  const startIn = (context: Context, { name: spanName, kind, facts = {} }: SpanStart) =>
    tracer.startSpan(spanName, { kind: kinds[kind], attributes: facts }, context);
  const spanOf = (span: OtelSpan): Span => ({
    traceparent: span.isRecording() ? traceparentOf(span) : undefined,
    rename: (renamed) => void span.updateName(renamed),
    set: (facts) => void span.setAttributes(facts),
    fail: (error) => {
      span.setStatus({ code: SpanStatusCode.ERROR });
      if (error instanceof Error) span.setAttribute("error.type", error.name);
    },
    end: () => span.end(),
  });
  const traceparentOf = (span: OtelSpan) => {
    const fields: Record<string, string> = {};
    propagator.inject(trace.setSpan(ROOT_CONTEXT, span), fields, carrier);
    return fields.traceparent;
  };
  let isOwnReceiver = false;
  return {
    serve: (start, traceparent, work) => {
      isOwnReceiver ||= traceparent === exportTraceparent;
      const caller = propagator.extract(ROOT_CONTEXT, { traceparent }, carrier);
      const otelSpan = startIn(caller, start);
      const span = spanOf(otelSpan);
      return contexts.with(trace.setSpan(caller, otelSpan), async () => {
        try {
          return await work(span);
        } catch (error) {
          span.fail(error);
          throw error;
        } finally {
          span.end();
        }
      });
    },
    start: (start) => {
      const context = contexts.active();
      if (trace.getSpan(context)?.isRecording() !== true) return undefined;
      return spanOf(startIn(context, start));
    },
    begin: (start) => {
      if (isOwnReceiver) return undefined;
      const otelSpan = startIn(ROOT_CONTEXT, start);
      return otelSpan.isRecording() ? spanOf(otelSpan) : undefined;
    },
    close: () => withTimeout(closeMs, systemClock, provider.shutdown()).catch(() => undefined),
  };
};

/** Reads and writes the fields of W3C Trace Context in a plain object. */
const carrier = {
  keys: (fields: object) => Object.keys(fields),
  get: (fields: Readonly<Record<string, string | undefined>>, key: string) => fields[key],
  set: (fields: Record<string, string>, key: string, value: string) => {
    fields[key] = value;
  },
};
