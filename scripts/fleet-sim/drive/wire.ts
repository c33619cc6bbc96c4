/** A P-256 key and the certificate that core issued for it, kept as bytes: there may be 100,000 of them. */
export interface HostCredentials {
  /** PKCS#8, DER. */
  key: Uint8Array;
  /** DER. */
  certificate: Uint8Array<ArrayBuffer>;
}

/** An answer of core: what a problem document or a result says. */
export interface Answer {
  status: number;
  body: Readonly<Record<string, unknown>>;
}

/** The `source` of every envelope that a driven host forwards. */
export const beaconSource = "svc-fleet-sim";

/** A frame with one envelope. */
export interface Beacon {
  identity: string;
  queueId: Uint8Array<ArrayBuffer>;
  /** Of the envelope; the one before it is committed. */
  sequence: number;
}

/** How a driven fleet reaches core. Every call rejects with a `WireError` where nothing came back that core would say. */
export interface Wire {
  /** The HTTP API, with a bearer token. */
  call(request: { method: string; path: string; bearer: string; body?: object }): Promise<Answer>;
  /** A management request in the name of a host, over mutual TLS or what stands for it. */
  manage(request: { path: string; body: object }, credentials: HostCredentials): Promise<Answer>;
  /** Sends a frame to the ingest listener; rejects with core's reason. Null where the listener is not told: nobody forwards then. */
  forward: ((beacon: Beacon, credentials: HostCredentials) => Promise<void>) | null;
  /** Makes a host's certificate look old (`ageCertificates`), where somebody holds the database. */
  age: ((identity: string) => Promise<void>) | null;
  close(): void;
}

/** A call that failed, by the code that reports count it under. */
export class WireError extends Error {
  readonly code: string;
  /** Whether the same call may succeed later: core was not reached, was busy, or says so. */
  readonly isPassing: boolean;

  constructor(code: string, { isPassing = false, ...options }: ErrorOptions & { isPassing?: boolean } = {}) {
    super(code, options);
    this.name = "WireError";
    this.code = code;
    this.isPassing = isPassing;
  }
}

/** The answer's body if it has this status; throws `WireError` with the problem's code otherwise. */
export const expectStatus = ({ status, body }: Answer, expected: number): Answer["body"] => {
  if (status !== expected)
    throw new WireError(codeOf({ status, body }), { isPassing: body.action === "retry" || status >= 500 });
  return body;
};

/** The code of a refusal. */
export const codeOf = ({ status, body }: Answer): string =>
  typeof body.code === "string" && /^[a-z0-9_]{1,64}$/.test(body.code) ? body.code : `http_${status}`;

/** A field that core's answers hold. */
export const textOf = (body: Answer["body"], name: string): string => {
  const value = body[name];
  if (typeof value !== "string") throw new WireError("answer_invalid");
  return value;
};
