import {
  DerError,
  type Extensions,
  extensionOid,
  readCertificate,
  readElements,
  readValue,
  tag,
} from "./certificate-der.ts";

/** Why a certificate or a request has no identity. */
export type IdentityFault =
  /** Not DER, or not the expected structure. */
  | "malformed"
  /** No Subject Alternative Name; a common name does not count. */
  | "no_name"
  /** More than one name, of any GeneralName type. */
  | "several_names"
  /** One name, but neither DNS nor URI. */
  | "other_kind"
  /** Empty, or has a byte that is not printable ASCII: NUL, white space, controls, anything above 0x7e. */
  | "bad_characters";

/** An identity, byte for byte as in the certificate: case, trailing dot and percent-encoding are kept. */
export type IdentityResult =
  | { readonly ok: true; readonly identity: string; readonly kind: "dns" | "uri" }
  | { readonly ok: false; readonly reason: IdentityFault };

/** Returns the identity of a certificate in DER: its single DNS or URI name among names of all types. Never throws. */
export const identityOfCertificate = (der: Uint8Array): IdentityResult =>
  withoutDerError(() => identityOf(readCertificate(der).extensions));

/** Returns the identity in the extensions of a certificate, or in the requested ones of a CSR. Never throws. */
export const identityOfExtensions = (extensions: Extensions): IdentityResult =>
  withoutDerError(() => identityOf(extensions));

const identityOf = (extensions: Extensions): IdentityResult => {
  const extension = extensions.get(extensionOid.subjectAltName);
  const [name, ...others] =
    extension === undefined ? [] : readElements(readValue(extension.value, tag.sequence));
  if (name === undefined) return { ok: false, reason: "no_name" };
  if (others.length > 0) return { ok: false, reason: "several_names" };
  if (name.tag !== tag.dnsName && name.tag !== tag.uri) return { ok: false, reason: "other_kind" };
  const printable = name.value.length > 0 && name.value.every((byte) => byte > 0x20 && byte < 0x7f);
  if (!printable) return { ok: false, reason: "bad_characters" };
  return {
    ok: true,
    identity: new TextDecoder().decode(name.value),
    kind: name.tag === tag.uri ? "uri" : "dns",
  };
};

const withoutDerError = (read: () => IdentityResult): IdentityResult => {
  try {
    return read();
  } catch (error) {
    if (error instanceof DerError) return { ok: false, reason: "malformed" };
    throw error;
  }
};

/**
 * Returns the identity of a device under a prefix: the prefix, then `deviceId` as UTF-8 percent-encoded, RFC 3986 unreserved
 * characters kept. Throws `URIError` for a device id with a lone surrogate; schemas reject those before.
 */
export const composeIdentity = (prefix: string, deviceId: string): string =>
  prefix +
  encodeURIComponent(deviceId).replace(
    /[!'()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
