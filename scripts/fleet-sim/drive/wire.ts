/** A P-256 key and the certificate that core issued for it, kept as bytes: there may be 100,000 of them. */
export interface HostCredentials {
  /** PKCS#8, DER. */
  key: Uint8Array;
  /** DER. */
  certificate: Uint8Array<ArrayBuffer>;
}

/** A response of core: a result or a problem document. */
export interface WireResponse {
  status: number;
  body: Readonly<Record<string, unknown>>;
}

/** The `source` of every envelope that a driven host forwards. */
export const beaconSource = "svc-fleet-sim";

/** A frame with one envelope. */
export interface Beacon {
  identity: string;
  queueId: Uint8Array<ArrayBuffer>;
  /** The sequence of the envelope; the one before it is committed. */
  sequence: number;
}

/** How a driven fleet reaches core. Every call rejects with a `WireError` if core's response did not arrive. */
export interface Wire {
  /** Calls the HTTP API with a bearer token. */
  call(request: {
    method: string;
    path: string;
    bearer: string;
    body?: object;
  }): Promise<WireResponse>;
  /** Sends a management request as a host, over mutual TLS or with the certificate in a header. */
  manage(
    request: { path: string; body: object },
    credentials: HostCredentials,
  ): Promise<WireResponse>;
  /** Posts a message of OpAMP as a host, as `manage` does; resolves with core's answer. */
  poll(message: Uint8Array<ArrayBuffer>, credentials: HostCredentials): Promise<Uint8Array>;
  /** Sends a frame to the ingest listener; rejects with core's reason. Null without a listener: no host forwards then. */
  forward: ((beacon: Beacon, credentials: HostCredentials) => Promise<void>) | null;
  close(): void;
}

/** A call that failed, with the code that reports count it under. */
export class WireError extends Error {
  readonly code: string;
  /** Whether a retry may succeed: core was unreachable or busy, or advises it. */
  readonly isTransient: boolean;

  constructor(
    code: string,
    { isTransient = false, ...options }: ErrorOptions & { isTransient?: boolean } = {},
  ) {
    super(code, options);
    this.name = "WireError";
    this.code = code;
    this.isTransient = isTransient;
  }
}

/** Returns the response's body if it has this status; throws a `WireError` with the problem's code otherwise. */
export const expectStatus = (response: WireResponse, expected: number): WireResponse["body"] => {
  const { status, body } = response;
  if (status !== expected)
    throw new WireError(codeOf(response), {
      isTransient: body.action === "retry" || status >= 500,
    });
  return body;
};

/** Returns the code of a problem. */
export const codeOf = ({ status, body }: WireResponse): string =>
  typeof body.code === "string" && /^[a-z0-9_]{1,64}$/.test(body.code)
    ? body.code
    : `http_${status}`;

/** Returns a text field of a response; throws a `WireError` if it is missing. */
export const textOf = (body: WireResponse["body"], name: string): string => {
  const value = body[name];
  if (typeof value !== "string") throw new WireError("answer_invalid");
  return value;
};
