import { eachValue, readWire } from "../../proto/wire.ts";
import type { ExportSignal } from "../config/export-config.ts";
import type { StoredEnvelope } from "../store/ingest/stored-envelope.ts";
import { attestResources } from "./attest-resources.ts";
import { encodeLogs } from "./log-lines.ts";

/** Envelopes that go into one export request, in their order. */
export interface ExportRequest {
  signal: ExportSignal;
  envelopes: readonly StoredEnvelope[];
}

/** The contents that a request may have. */
export interface RequestLimits {
  /** Payload of a request; one envelope may exceed it. */
  bytesMax: number;
  signals: readonly ExportSignal[];
  /** Whether each resource gets the identity of its host. */
  isAttested: boolean;
  /** How the envelopes of a host are kept apart from others, so that what the backend rejects of a request can be named. */
  apartOf?: (hostId: string) => Apartness;
}

/** Whether envelopes share requests with those of other hosts, with those of their own host, or with none. */
export type Apartness = "no" | "host" | "envelope";

/** The kinds whose payload is a request of OTLP (docs/protocol.md). Lines, and kinds that only others know, become log records. */
const otlpSignals: ReadonlyMap<string, ExportSignal> = new Map([
  ["otel_span", "traces"],
  ["otel_log", "logs"],
  ["otel_metric", "metrics"],
]);

/** Whether a payload consists of whole resources: one that is cut off would take the bytes behind it, another host's, as its own. */
const isWhole = ({ payload }: StoredEnvelope): boolean => {
  try {
    readWire(payload, (reader) => eachValue(reader, payload.length, 1, () => undefined));
    return true;
  } catch {
    return false;
  }
};

/**
 * Cuts envelopes into requests of at most `bytesMax` of payload, or of one envelope, for the `signals` alone. The requests of a signal are in
 * the order of the envelopes. A malformed payload goes alone.
 */
export const cutRequests = (
  envelopes: Iterable<StoredEnvelope>,
  { bytesMax, signals, apartOf = () => "no" }: RequestLimits,
): ExportRequest[] => {
  const requests: ExportRequest[] = [];
  const open = new Map<
    ExportSignal,
    { envelopes: StoredEnvelope[]; bytes: number; ofHost: string | null }
  >();
  for (const envelope of envelopes) {
    const otlp = otlpSignals.get(envelope.kind);
    const signal = otlp ?? "logs";
    if (!signals.includes(signal)) continue;
    const apart = apartOf(envelope.hostId);
    if (apart === "envelope" || (otlp && !isWhole(envelope))) {
      open.delete(signal);
      requests.push({ signal, envelopes: [envelope] });
      continue;
    }
    let request = open.get(signal);
    const ofHost = apart === "host" ? envelope.hostId : null;
    if (
      !request ||
      request.ofHost !== ofHost ||
      request.bytes + envelope.payload.length > bytesMax
    ) {
      request = { envelopes: [], bytes: 0, ofHost };
      open.set(signal, request);
      requests.push({ signal, envelopes: request.envelopes });
    }
    request.envelopes.push(envelope);
    // A line has some hundred bytes of names and times around it.
    request.bytes += envelope.payload.length + 128;
  }
  return requests;
};

/**
 * Encodes a request. Requests of OTLP that follow each other are one with the resources of all: protobuf appends repeated fields. Each resource
 * has the identity of its host if it shall; a malformed payload then throws `ProtobufError`.
 */
export const encodeRequest = ({ envelopes }: ExportRequest, isAttested: boolean): Uint8Array => {
  const parts: Uint8Array[] = [];
  let lines: StoredEnvelope[] = [];
  const endLines = () => {
    if (lines.length > 0) parts.push(encodeLogs(lines));
    lines = [];
  };
  for (const envelope of envelopes) {
    if (!otlpSignals.has(envelope.kind)) lines.push(envelope);
    else {
      endLines();
      parts.push(
        isAttested ? attestResources(envelope.payload, envelope.hostId) : envelope.payload,
      );
    }
  }
  endLines();
  const [only] = parts;
  return parts.length === 1 && only ? only : Buffer.concat(parts);
};
