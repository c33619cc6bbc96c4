import {
  type Attributes,
  type Context,
  type HrTime,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  trace,
} from "@opentelemetry/api";
import { ProtobufTraceSerializer } from "@opentelemetry/otlp-transformer";
import { defaultResource, type Resource, resourceFromAttributes } from "@opentelemetry/resources";
import { TracerProvider } from "@opentelemetry/sdk-trace";
import type { Random } from "#scripts/fleet-sim/scenario/random.ts";
import { filledPath, messageOf, status } from "./lines.ts";
import { type CorpusService, frames, services, statements, userAgents } from "./vocabulary.ts";

const version = "0.301.0";
const instrumented = services.filter(({ form }) => form !== "syslog");

/** An export request of the SDK, in protobuf, and when it was sent, in milliseconds since the Unix epoch. */
export interface CorpusRequest {
  bytes: Uint8Array;
  at: number;
}

/**
 * Creates trace export requests of `spansOfRequest` spans of one service with the OpenTelemetry SDK, whose spans have the attributes of its
 * instrumentations of HTTP, Express, pg and KafkaJS; a part of the requests fails, with the exception.
 */
export function* createSpanRequests(
  random: Random,
  startedAt: number,
  spansOfRequest: number,
): Generator<CorpusRequest, never> {
  const programs = instrumented.map((service) => createProgram(random, service));
  let us = 0;
  for (;;) {
    const program = programs[random.between(0, programs.length - 1)] ?? programs[0];
    us += random.between(500, 20_000);
    program?.serve(startedAt, us);
    while (program !== undefined && program.ended.length >= spansOfRequest) {
      const bytes = ProtobufTraceSerializer.serializeRequest(
        program.ended.splice(0, spansOfRequest),
      );
      if (bytes === undefined) throw new Error("the SDK did not encode its spans");
      yield { bytes, at: startedAt + Math.floor(us / 1000) };
    }
  }
}

const uuid = (random: Random): string =>
  random
    .bytes(16)
    .toHex()
    .replace(/(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");

const resourceOf = (random: Random, { name, version: release }: CorpusService): Resource =>
  defaultResource().merge(
    resourceFromAttributes({
      "service.name": name,
      "service.version": release,
      "service.instance.id": uuid(random),
      "deployment.environment.name": "production",
      "host.name": "web-07",
      "process.runtime.name": "nodejs",
      "process.runtime.version": "24.11.1",
      "k8s.pod.name": `${name}-6f9c7d-${random.bytes(3).toHex()}`,
    }),
  );

/** A service with its tracers. */
const createProgram = (random: Random, service: CorpusService) => {
  const ended: Parameters<typeof ProtobufTraceSerializer.serializeRequest>[0] = [];
  const done = async () => undefined;
  const provider = new TracerProvider({
    resource: resourceOf(random, service),
    idGenerator: {
      generateTraceId: () => random.bytes(16).toHex(),
      generateSpanId: () => random.bytes(8).toHex(),
    },
    spanProcessors: [
      {
        onStart: () => undefined,
        onEnd: (span) => ended.push(span),
        forceFlush: done,
        shutdown: done,
      },
    ],
  });
  /** Creates the spans of one request, or of one message, that begins `us` microseconds after `startedAt`. */
  const serve = (startedAt: number, us: number): void => {
    const timeOf = (at: number): HrTime => {
      const whole = Math.floor(at);
      const seconds = Math.floor(startedAt / 1000) + Math.floor(whole / 1e6);
      return [seconds, (whole % 1e6) * 1000 + random.between(0, 999)];
    };
    const start: StartSpan = (kind, { name, kind: spanKind, attributes }, at, context) =>
      provider
        .getTracer(`@opentelemetry/instrumentation-${kind}`, version)
        .startSpan(name, { kind: spanKind, attributes, startTime: timeOf(at) }, context);
    serveRequest({ random, service, start, timeOf }, us);
  };
  return { ended, serve };
};

/** Starts a span of an instrumentation, `at` microseconds. */
type StartSpan = (
  instrumentation: "http" | "express" | "pg" | "kafkajs",
  span: { name: string; kind: SpanKind; attributes: Attributes },
  at: number,
  context: Context,
) => Span;

interface Serving {
  random: Random;
  service: CorpusService;
  start: StartSpan;
  timeOf(at: number): HrTime;
}

const serveRequest = (serving: Serving, us: number): void => {
  const { random, service, start, timeOf } = serving;
  const remote = {
    traceId: random.bytes(16).toHex(),
    spanId: random.bytes(8).toHex(),
    traceFlags: 1,
    isRemote: true,
  };
  const caller =
    random.fraction() < 0.6 ? trace.setSpanContext(ROOT_CONTEXT, remote) : ROOT_CONTEXT;
  const isMessage = random.fraction() < 0.15;
  const route = random.pick(service.routes);
  const method = random.weighted([
    ["GET", 7],
    ["POST", 3],
  ]);
  const code = status(random);
  const root = isMessage
    ? start("kafkajs", messageSpan(random, SpanKind.CONSUMER, "process"), us, caller)
    : start("http", requestSpan(random, { method, route, code }), us, caller);
  const within = trace.setSpan(ROOT_CONTEXT, root);
  let at = us + random.between(80, 400);
  if (!isMessage) {
    const span = start("express", handlerSpan(route), at, within);
    span.end(timeOf(at + random.between(2, 30)));
  }
  for (let queries = random.between(1, 3); queries > 0; queries--) {
    const span = start("pg", querySpan(random, service), at, within);
    at += random.between(200, 9_000);
    span.end(timeOf(at));
  }
  if (method === "POST" && code < 400) {
    const span = start("kafkajs", messageSpan(random, SpanKind.PRODUCER, "send"), at, within);
    at += random.between(500, 4_000);
    span.end(timeOf(at));
  }
  if (code >= 500) fail(root, random, timeOf(at));
  root.end(timeOf(at + random.between(50, 900)));
};

const handlerSpan = (route: string) => ({
  name: `request handler - ${route}`,
  kind: SpanKind.INTERNAL,
  attributes: { "express.name": route, "express.type": "request_handler", "http.route": route },
});

const querySpan = (random: Random, { form }: CorpusService) => {
  const [sql, parameters] = random.pick(statements);
  const operation = sql.split(" ", 1)[0] ?? "";
  const values = Array.from({ length: form === "logfmt" ? parameters : 0 }, (_, n) => [
    `db.query.parameter.${n}`,
    String(random.between(1, 9_999_999)),
  ]);
  return {
    name: `pg.query:${operation} shop`,
    kind: SpanKind.CLIENT,
    attributes: {
      "db.system.name": "postgresql",
      "db.namespace": "shop",
      "db.query.text": sql,
      "db.operation.name": operation,
      "server.address": "shop-db.internal",
      "server.port": 5432,
      ...Object.fromEntries(values),
    },
  };
};

/** Ends a request with an exception and its stack. */
const fail = (root: Span, random: Random, time: HrTime): void => {
  const [name, message] = messageOf(random);
  const lines = Array.from({ length: random.between(4, 9) }, () => {
    const call = random.pick(frames);
    return `    at ${call} (/app/dist/${call.split(".", 1)[0]}.js:${random.between(10, 900)}:${random.between(3, 60)})`;
  });
  root.recordException({ name, message, stack: `${name}: ${message}\n${lines.join("\n")}` }, time);
  root.setStatus({ code: SpanStatusCode.ERROR, message });
  root.setAttribute("error.type", name);
};

const requestSpan = (
  random: Random,
  { method, route, code }: { method: string; route: string; code: number },
) => ({
  name: `${method} ${route}`,
  kind: SpanKind.SERVER,
  attributes: {
    "http.request.method": method,
    "url.scheme": "http",
    "url.path": filledPath(random, route),
    "http.route": route,
    "server.address": "shop.example.com",
    "network.peer.address": `10.0.${random.between(0, 7)}.${random.between(1, 254)}`,
    "network.peer.port": random.between(1_024, 65_535),
    "network.protocol.version": "1.1",
    "user_agent.original": random.pick(userAgents),
    "http.response.status_code": code,
  },
});

const messageSpan = (random: Random, kind: SpanKind, operation: "process" | "send") => ({
  name: `${operation} orders.paid`,
  kind,
  attributes: {
    "messaging.system": "kafka",
    "messaging.destination.name": "orders.paid",
    "messaging.operation.name": operation,
    "messaging.destination.partition.id": String(random.between(0, 23)),
    "messaging.kafka.message.key": uuid(random),
  },
});
