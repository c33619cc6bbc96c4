import type { BinaryWriter } from "@bufbuild/protobuf/wire";
import { freeBytes } from "#kit/free-bytes.ts";
import { eachValue, ProtobufError, readWire } from "#proto/wire.ts";
import type { ExportSignal } from "../config/export-config.ts";
import type { StoredEnvelope } from "../store/ingest/stored-envelope.ts";
import { encodeRequest, otlpSignals } from "./export-requests.ts";

/** Envelopes that go into one export request, in their order. */
export interface ExportRequest {
  signal: ExportSignal;
  /** An encoded request unpacks them each time: only what a backend rejects is needed again. */
  readonly envelopes: readonly StoredEnvelope[];
  encoded?: EncodedEnvelopes;
}

/** So many envelopes, encoded in memory of their own; without a body if a payload is malformed. */
export interface EncodedEnvelopes {
  body: Uint8Array | undefined;
  count: number;
}

/** A block whose envelopes were unpacked, and can be again. */
export interface UnpackedBlock {
  envelopes: readonly StoredEnvelope[];
  unpack(): readonly StoredEnvelope[];
}

/** The limits of a request's contents. */
export interface RequestLimits {
  /** Payload of a request; one envelope may exceed it. */
  bytesMax: number;
  signals: readonly ExportSignal[];
  /** Whether each resource gets the identity of its host. */
  isAttested: boolean;
  /** How the envelopes of a host are separated from others, so that a rejection can be attributed. */
  isolationOf?: (hostId: string) => Isolation;
  /** Encodes one part of a request after the other. */
  writer?: BinaryWriter;
}

/** Whether envelopes share requests with those of other hosts, with those of their own host, or with none. */
export type Isolation = "none" | "host" | "envelope";

const signalOf = ({ kind }: StoredEnvelope): ExportSignal => otlpSignals.get(kind) ?? "logs";

/** Reports whether a payload consists of complete resources: a truncated one would take the bytes after it, another host's, as its own. */
const isWhole = ({ payload }: StoredEnvelope) => {
  try {
    readWire(payload, (reader) => eachValue(reader, payload.length, 1, () => undefined));
    return true;
  } catch {
    return false;
  }
};

/**
 * Splits the envelopes of `signals` into requests of at most `bytesMax` of payload, or of one envelope; takes no more blocks than the next
 * request needs. The requests of a signal are in the order of the envelopes. A malformed payload has its own request.
 */
export function* cutRequests(
  blocks: Iterable<UnpackedBlock>,
  limits: RequestLimits,
): Generator<ExportRequest> {
  const { bytesMax, signals } = limits;
  const open = new Map<ExportSignal, OpenRequest>();
  for (const block of blocks) {
    for (const [index, envelope] of block.envelopes.entries()) {
      const signal = signalOf(envelope);
      if (!signals.includes(signal)) continue;
      const { isAlone, onlyHost } = isolate(envelope, limits);
      const before = open.get(signal);
      const isFull = before && before.bytes() + envelope.payload.length > bytesMax;
      if (before && (isAlone || isFull || before.onlyHost !== onlyHost)) {
        yield before.close();
        open.delete(signal);
      }
      if (isAlone) {
        yield { signal, envelopes: [envelope] };
        continue;
      }
      const request = open.get(signal) ?? openRequest(signal, onlyHost, limits);
      open.set(signal, request);
      request.add(envelope, block, index);
    }
    for (const request of open.values()) request.encode();
  }
  for (const request of open.values()) yield request.close();
}

/** Returns whether an envelope has its own request, and the host that its request is limited to. */
const isolate = (
  envelope: StoredEnvelope,
  { isolationOf = () => "none" }: Pick<RequestLimits, "isolationOf">,
) => {
  const isolation = isolationOf(envelope.hostId);
  const isMalformed = otlpSignals.has(envelope.kind) && !isWhole(envelope);
  return {
    isAlone: isolation === "envelope" || isMalformed,
    onlyHost: isolation === "host" ? envelope.hostId : null,
  };
};

/** Encodes envelopes of one signal. */
export const encodeEnvelopes = (
  envelopes: readonly StoredEnvelope[],
  { isAttested, writer }: Pick<RequestLimits, "isAttested" | "writer">,
): EncodedEnvelopes => {
  const count = envelopes.length;
  try {
    const body = encodeRequest({ envelopes }, isAttested, writer);
    return { body: body === envelopes[0]?.payload ? body.slice() : body, count };
  } catch (cause) {
    if (!(cause instanceof ProtobufError)) throw cause;
    return { body: undefined, count };
  }
};

type OpenRequest = ReturnType<typeof openRequest>;

/** From here on envelopes are encoded: if they lived until their request is full, collecting them would cost as much as all other work. */
const encodedMin = { envelopes: 64, bytes: 64 * 1024 };

/** Collects the envelopes of a request, and encodes them as they come, so that none is in memory while the request waits for the backend. */
const openRequest = (signal: ExportSignal, onlyHost: string | null, limits: RequestLimits) => {
  /** Where the envelopes are: those of the signal from one index to another. */
  const places: (Pick<UnpackedBlock, "unpack"> & { from: number; to: number })[] = [];
  const parts: EncodedEnvelopes[] = [];
  let fresh: StoredEnvelope[] = [];
  let freshBytes = 0;
  let bytes = 0;
  const encodeFresh = () => {
    if (fresh.length > 0) parts.push(encodeEnvelopes(fresh, limits));
    fresh = [];
    freshBytes = 0;
  };
  return {
    onlyHost,
    bytes: () => bytes,
    add(envelope: StoredEnvelope, { unpack }: UnpackedBlock, index: number) {
      const last = places.at(-1);
      if (last?.unpack === unpack) last.to = index;
      else places.push({ unpack, from: index, to: index });
      fresh.push(envelope);
      freshBytes += envelope.payload.length;
      // A line has some hundred bytes of names and times around it.
      bytes += envelope.payload.length + 128;
    },
    /** Encodes the envelopes that are not, if they are many. */
    encode() {
      if (fresh.length >= encodedMin.envelopes || freshBytes >= encodedMin.bytes) encodeFresh();
    },
    close(): ExportRequest {
      encodeFresh();
      return {
        signal,
        encoded: joinParts(parts),
        get envelopes() {
          return places.flatMap(({ unpack, from, to }) =>
            unpack()
              .slice(from, to + 1)
              .filter((envelope) => signalOf(envelope) === signal),
          );
        },
      };
    },
  };
};

/** Joins parts, which are freed. */
const joinParts = (parts: readonly EncodedEnvelopes[]): EncodedEnvelopes => {
  const [first] = parts;
  if (parts.length === 1 && first) return first;
  const bodies = parts.flatMap(({ body }) => body ?? []);
  const body = bodies.length === parts.length ? Buffer.concat(bodies) : undefined;
  for (const each of bodies) freeBytes(each);
  return { body, count: parts.reduce((sum, part) => sum + part.count, 0) };
};

/** How many envelopes of a host are isolated after one that was rejected in part. */
const envelopesIsolated = 1_000;
const hostsMax = 10_000;

/**
 * Narrows down who sends what a backend rejects: an accepted request does not say which of its items were not, and must not be sent again. The
 * hosts of such a request are isolated from others for a while, and one that is then alone in such a request has each envelope alone.
 */
export const createSuspects = () => {
  const suspects = new Map<string, { isolation: Isolation; left: number }>();
  return {
    isolationOf(hostId: string): Isolation {
      const suspect = suspects.get(hostId);
      if (suspect === undefined) return "none";
      suspect.left -= 1;
      if (suspect.left <= 0) suspects.delete(hostId);
      return suspect.isolation;
    },
    note({ envelopes }: Pick<ExportRequest, "envelopes">): void {
      const hosts = new Set(envelopes.map(({ hostId }) => hostId));
      for (const hostId of hosts)
        if (suspects.size < hostsMax)
          suspects.set(hostId, {
            isolation: hosts.size === 1 ? "envelope" : "host",
            left: envelopesIsolated,
          });
    },
  };
};
