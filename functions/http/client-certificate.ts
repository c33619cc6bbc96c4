import { readDer, tag } from "../../proto/der.ts";
import { decodePem } from "../../proto/pem.ts";
import { Problem } from "../problems.ts";
import type { HttpContext } from "./request.ts";

/** The most that the header may hold, before decoding. */
const headerCharactersMax = 16_384;

/**
 * DER of the caller's client certificate: from the TLS socket, or, only where the header named `header` is configured and the
 * listener is the plain one, from that header. Null when there is none. Throws 400 `client_certificate_header_invalid` unless the
 * header is one percent-encoded PEM certificate, given once.
 */
export const clientCertificateOf = (c: HttpContext, header: string | null): Uint8Array | null => {
  const { certificate, listener } = c.get("peer");
  const value = header === null || listener === "ingest" ? undefined : c.req.header(header);
  return value === undefined ? certificate : decodeHeader(value);
};

const decodeHeader = (value: string): Uint8Array => {
  // The platform joins copies of a header with a comma, which no percent-encoded PEM holds; nor does it hold white space.
  const encoded = value.length <= headerCharactersMax && /^[A-Za-z0-9%+/=._~-]+$/.test(value);
  const der = encoded ? decodePem(decodePercent(value), "CERTIFICATE") : undefined;
  if (der === undefined || !isOneElement(der)) throw new Problem("client_certificate_header_invalid");
  return der;
};

const isOneElement = (der: Uint8Array): boolean => {
  try {
    readDer(der, tag.sequence);
    return true;
  } catch {
    return false;
  }
};

/** Percent-decoding alone: a `+` stays what it is, as base64 needs it. */
const decodePercent = (value: string): string => {
  try {
    return decodeURIComponent(value);
  } catch {
    return "";
  }
};
