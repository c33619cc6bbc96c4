/**
 * The connections of the ingest listener and their open calls, limited for each caller. Invariants:
 * - Core reads nothing of a call, and runs no query for it, before it has admitted the connection and acquired a slot.
 * - A connection that is not admitted gets one response, with the reason, and is closed.
 * - Until core has checked the row of a certificate, calls count only against that certificate, so that a replaced one cannot use up the slots
 *   of its identity.
 */
import { createHash, type X509Certificate } from "node:crypto";
import { constants, type ServerHttp2Session } from "node:http2";
import type { TLSSocket } from "node:tls";
import type { Peer } from "#functions/http/request.ts";
import type {
  Admission,
  CallerCertificate,
  CallerConnection,
} from "#functions/ingest/admission.ts";
import { Problem, type ProblemCode } from "#functions/problems.ts";
import { addressKey } from "#kit/address.ts";
import type { Clock } from "#kit/clock.ts";
import { createSlots } from "#kit/slots.ts";
import { createTokenBuckets } from "#kit/token-buckets.ts";
import { identityOfCertificate } from "#proto/identity.ts";
import { createSilenceCheck, createTurns, pingOrDestroy } from "./ingest-streams.ts";

/** Limits of one caller. */
export interface CallerLimits {
  connectionsOfIdentityMax: number;
  /** Open calls of an identity, of all methods and management paths. */
  callsOfIdentityMax: number;
  /** After this many calls a connection gets a GOAWAY, and its client opens another one. */
  callsOfConnectionMax: number;
  /** Resets and rejected calls of a certificate, at once and then per second. Above it, core closes its connections. */
  faultsBurst: number;
  faultsPerSecond: number;
  /** A connection without a call is closed after this time. */
  idleMs: number;
  /** A connection that was not admitted is closed after this time, or after its first answer. */
  refusedMs: number;
}

/** The defaults. */
export const callerLimits: CallerLimits = {
  connectionsOfIdentityMax: 4,
  callsOfIdentityMax: 8,
  callsOfConnectionMax: 10_000,
  faultsBurst: 200,
  faultsPerSecond: 20,
  idleMs: 120_000,
  refusedMs: 2_000,
};

/** Each check covers one of this many parts: checking all of 100,000 connections at once would block the event loop for seconds. */
const checkParts = 15;
/** Until a returning host's silent connections are closed, core rejects it. */
const pingTimeoutMs = 5_000;

/** Connections of one address that were not admitted and wait for their answer. */
const refusedOfAddressMax = 100;

/** The bytes that an admitted connection may send before core has read them. */
const connectionWindowBytes = 4 * 1024 * 1024;

/** A verified client certificate. */
interface PeerOfConnection {
  caller: CallerCertificate;
  der: Uint8Array<ArrayBuffer>;
}

/** An open call. */
export interface Call {
  /** Resolves, once the connection has been admitted, with why the call is rejected; undefined when that is known already. */
  ready: Promise<Problem | undefined> | undefined;
  /** Releases the slot. `isFault`: the client has reset the call. */
  leave(isFault: boolean): void;
}

/** A connection that has finished its TLS handshake. */
export interface Connection {
  /** Null unless the certificate chains to the client CA and is within its dates. */
  peer: PeerOfConnection | null;
  /** The bindings that the app of the management routes receives with each request. */
  bindings: { peer: Peer };
  /** Why its certificate has no active row, by what core knew when the connection was admitted. */
  rowFault(): ProblemCode | undefined;
  /** Starts a call, or returns why it is rejected. */
  enter(): Call | Problem;
  /** Counts a call that was rejected; the connection is closed if there were too many, or if it was not admitted. */
  reject(): void;
  /** Closes it, and logs why. */
  end(reason: string): void;
}

/** Creates an empty set of connections. */
export const createIngestConnections = (needs: ConnectionNeeds) => {
  const shared = shareAmongConnections(needs);
  const nextChecked = createTurns(shared.open, checkParts);
  return {
    open: (socket: TLSSocket, session?: ServerHttp2Session) =>
      openConnection(shared, socket, session),
    /** Call it every second: checks one fifteenth of the connections, and closes those that are idle or whose host has vanished. */
    check() {
      const now = needs.clock.monotonic();
      for (const entry of nextChecked()) entry.check(now);
    },
  };
};

interface ConnectionNeeds {
  limits: CallerLimits;
  clock: Pick<Clock, "monotonic">;
  log: { warn(fields: object, message: string): void };
  /** `check` rejects when the state of a certificate cannot be known. */
  admission: Pick<Admission, "check" | "recordExpired">;
}

interface OpenConnection {
  owner: string;
  check(now: number): void;
  /** Detects a host that vanished, so that its connections do not keep it from returning. */
  ping(): void;
}

/** Creates the state that all connections share: slots of callers, their faults, and the warnings about them. */
const shareAmongConnections = (needs: ConnectionNeeds) => {
  const { limits, clock } = needs;
  return {
    ...needs,
    open: new Set<OpenConnection>(),
    connections: createSlots(limits.connectionsOfIdentityMax),
    calls: createSlots(limits.callsOfIdentityMax),
    refusedSlots: createSlots(refusedOfAddressMax),
    faults: createTokenBuckets({
      burst: limits.faultsBurst,
      perSecond: limits.faultsPerSecond,
      clock,
    }),
    warnings: createTokenBuckets({ burst: 3, perSecond: 1 / 60, clock }),
  };
};

type SharedState = ReturnType<typeof shareAmongConnections>;

const openConnection = (
  shared: SharedState,
  socket: TLSSocket,
  session: ServerHttp2Session | undefined,
): Connection => {
  const { limits, faults } = shared;
  const address = socket.remoteAddress ?? "";
  const { peer, fault, expired } = readPeer(socket, address);
  if (expired) void shared.admission.recordExpired(expired);
  const identity = peer?.caller.identity;
  const certificateKey = peer?.caller.fingerprintSha256 ?? `address ${addressKey(address)}`;
  const owner = identity?.ok ? `identity ${identity.identity}` : certificateKey;

  const end = (code: number) => {
    if (session === undefined) socket.destroy();
    else if (!session.destroyed) session.destroy(undefined, code);
  };
  const warn = (reason: string) => {
    if (!shared.warnings.take(`${identity?.ok ? owner : addressKey(address)} ${reason}`)) return;
    const host = identity?.ok ? { host_id: identity.identity } : {};
    shared.log.warn({ remote_address: address, reason, ...host }, "connection rejected");
  };
  const endCalm = (reason: string) => {
    warn(reason);
    end(constants.NGHTTP2_ENHANCE_YOUR_CALM);
  };
  const countFault = (reason: string) => {
    if (!faults.take(certificateKey)) endCalm(reason);
  };
  const gate = createGate(shared, { session, address, owner, end, warn });
  const calls = createCallCounter(shared, { session, owner, gate, countFault });

  const checkSilence = session && createSilenceCheck(session, socket);
  const entry = {
    owner,
    check(now: number) {
      if (!calls.isIdle(now)) checkSilence?.();
      else if (session === undefined) socket.destroy();
      else session.close();
    },
    ping: () => session && pingOrDestroy(session, pingTimeoutMs),
  };
  shared.open.add(entry);
  (session ?? socket).once("close", () => {
    shared.open.delete(entry);
    gate.close();
  });
  if (peer === null)
    gate.refuse(fault?.problem ?? new Problem("client_certificate_required"), fault?.reason);
  else if (faults.tokens(certificateKey) < limits.faultsBurst / 2)
    endCalm("too many resets and rejected calls");
  else gate.admit(peer.caller);

  return {
    peer,
    bindings: {
      peer: { remoteAddress: address, certificate: peer?.der ?? null, listener: "ingest" },
    },
    rowFault: gate.rowFault,
    enter: calls.enter,
    end: endCalm,
    reject() {
      if (gate.refusal() === undefined) return countFault("too many rejected calls");
      // After the response has been sent.
      setImmediate(() => {
        if (session === undefined) socket.destroySoon();
        else session.close();
      });
    },
  };
};

/** Decides on a connection. It has a slot of its certificate until core has checked that one's row, then of its owner, or of its refusal. */
const createGate = (
  { limits, admission, open, connections, refusedSlots }: SharedState,
  {
    session,
    address,
    owner,
    end,
    warn,
  }: {
    session: ServerHttp2Session | undefined;
    address: string;
    owner: string;
    end(code: number): void;
    warn(reason: string): void;
  },
) => {
  let refusal: Problem | undefined;
  let rowFault: ProblemCode | undefined;
  let admitting: Promise<void> | undefined;
  let release: (() => void) | null = null;
  let isClosed = false;

  const refuse = (problem: Problem, reason: string = problem.code) => {
    refusal = problem;
    release?.();
    release = refusedSlots(addressKey(address));
    warn(reason);
    if (release === null) end(constants.NGHTTP2_ENHANCE_YOUR_CALM);
    else setTimeout(() => end(constants.NGHTTP2_NO_ERROR), limits.refusedMs).unref();
  };
  const refuseAtLimit = () => {
    for (const other of open) if (other.owner === owner) other.ping();
    refuse(new Problem("too_many_connections"));
  };
  /** Releases the slot and acquires one of `key`; returns whether there was one. */
  const exchangeSlot = (key: string) => {
    release?.();
    release = connections(key);
    return release !== null;
  };
  const checkRow = async (caller: CallerCertificate) => {
    // If the database is unavailable, the calls are rejected instead.
    const found = await admission.check(caller).catch(() => undefined);
    admitting = undefined;
    if (isClosed) return;
    rowFault = found?.fault;
    if (found?.refuse) return refuse(found.refuse);
    if (!exchangeSlot(owner)) return refuseAtLimit();
    if (session?.destroyed === false) session.setLocalWindowSize(connectionWindowBytes);
  };
  return {
    refuse,
    admit(caller: CallerCertificate) {
      if (exchangeSlot(caller.fingerprintSha256)) admitting = checkRow(caller);
      else refuseAtLimit();
    },
    close() {
      isClosed = true;
      release?.();
    },
    refusal: () => refusal,
    rowFault: () => rowFault,
    /** Resolves when it has decided; undefined once it has. */
    admitting: () => admitting,
  };
};

/** Counts the calls of a connection, each with a slot of its owner. Those before the gate's decision wait for it. */
const createCallCounter = (
  { limits, clock, calls }: SharedState,
  {
    session,
    owner,
    gate,
    countFault,
  }: {
    session: ServerHttp2Session | undefined;
    owner: string;
    gate: ReturnType<typeof createGate>;
    countFault(reason: string): void;
  },
) => {
  let waiting = 0;
  let openCalls = 0;
  let allCalls = 0;
  let lastCallAt = clock.monotonic();
  return {
    isIdle: (now: number) => openCalls === 0 && now - lastCallAt >= limits.idleMs,
    enter(): Call | Problem {
      lastCallAt = clock.monotonic();
      if (++allCalls === limits.callsOfConnectionMax) session?.close();
      const refusal = gate.refusal();
      if (refusal) return refusal;
      let leaveSlot: (() => void) | null = null;
      let isOver = false;
      const acquire = (): Problem | undefined => {
        const refusedSince = gate.refusal();
        if (refusedSince || isOver) return refusedSince;
        leaveSlot = calls(owner);
        return leaveSlot === null ? tooManyCalls(limits) : undefined;
      };
      const admitting = gate.admitting();
      let ready: Call["ready"];
      if (admitting === undefined) {
        const rejected = acquire();
        if (rejected) return rejected;
      } else {
        if (waiting >= limits.callsOfIdentityMax) return tooManyCalls(limits);
        waiting++;
        ready = admitting.then(() => {
          waiting--;
          return acquire();
        });
      }
      openCalls++;
      return {
        ready,
        leave(isFault) {
          if (isOver) return;
          isOver = true;
          openCalls--;
          lastCallAt = clock.monotonic();
          leaveSlot?.();
          if (isFault) countFault("too many resets");
        },
      };
    },
  };
};

const tooManyCalls = ({ callsOfIdentityMax }: CallerLimits): Problem =>
  new Problem("too_many_streams", {
    detail: `an identity may have ${callsOfIdentityMax} open streams`,
  });

interface PeerRead {
  peer: PeerOfConnection | null;
  fault?: { problem: Problem; reason: string };
  expired?: CallerCertificate;
}

/** OpenSSL's reasons for a certificate outside its dates, which the management routes also answer by `certificate_expired`. */
const dateReasons = ["CERT_HAS_EXPIRED", "CERT_NOT_YET_VALID"];

const readPeer = (socket: TLSSocket, remoteAddress: string): PeerRead => {
  const certificate = socket.getPeerX509Certificate();
  if (certificate === undefined) return { peer: null };
  const der = Uint8Array.from(certificate.raw);
  const peer = { der, caller: readCaller(certificate, { der, remoteAddress }) };
  if (socket.authorized) return { peer };
  const reason = String(socket.authorizationError ?? "unknown");
  if (dateReasons.includes(reason))
    return {
      peer: null,
      fault: { problem: new Problem("certificate_expired"), reason },
      expired: peer.caller,
    };
  const problem = new Problem("certificate_unknown", {
    detail: "The certificate does not chain to the client CA",
  });
  return { peer: null, fault: { problem, reason } };
};

const readCaller = (
  certificate: X509Certificate,
  connection: CallerConnection,
): CallerCertificate => ({
  identity: identityOfCertificate(connection.der),
  fingerprintSha256: createHash("sha256").update(connection.der).digest("hex"),
  notAfter: certificate.validToDate.getTime(),
  connection,
});
