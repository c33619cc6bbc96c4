import { contextPrimitive, DerError, readAll, readDer, tag } from "./der.ts";
import { type Extensions, extensionOid, readCertificate } from "./x509.ts";

/** Why a certificate or a request has no identity. */
export type IdentityFault =
  /** Not DER, or not the structure it should be. */
  | "malformed"
  /** No Subject Alternative Name; a common name does not count. */
  | "no_name"
  /** More than one name, of whatever GeneralName type. */
  | "several_names"
  /** One name, but neither DNS nor URI. */
  | "other_kind"
  /** Empty, or holds a byte that is not printable ASCII: NUL, white space, controls, anything above 0x7e. */
  | "bad_characters";

/** The identity as it stands in the name: case, trailing dot and percent-encoding are kept byte for byte. */
export type IdentityResult =
  | { readonly ok: true; readonly identity: string; readonly kind: "dns" | "uri" }
  | { readonly ok: false; readonly reason: IdentityFault };

const kinds = new Map([
  [contextPrimitive(2), "dns"],
  [contextPrimitive(6), "uri"],
] as const);

/** The identity that a certificate's DER states: its single DNS or URI name among names of all types. Never throws. */
export const identityOfCertificate = (der: Uint8Array): IdentityResult => {
  try {
    return identityOfExtensions(readCertificate(der).extensions);
  } catch (error) {
    if (error instanceof DerError) return { ok: false, reason: "malformed" };
    throw error;
  }
};

/** The identity that extensions state, those of a certificate or those that a request asks for. Never throws. */
export const identityOfExtensions = (extensions: Extensions): IdentityResult => {
  const extension = extensions.get(extensionOid.subjectAltName);
  if (extension === undefined) return { ok: false, reason: "no_name" };
  try {
    const [name, ...others] = readAll(readDer(extension.value, tag.sequence).value);
    if (name === undefined) return { ok: false, reason: "no_name" };
    if (others.length > 0) return { ok: false, reason: "several_names" };
    const kind = kinds.get(name.tag);
    if (kind === undefined) return { ok: false, reason: "other_kind" };
    const printable = name.value.length > 0 && name.value.every((byte) => byte > 0x20 && byte < 0x7f);
    if (!printable) return { ok: false, reason: "bad_characters" };
    return { ok: true, identity: new TextDecoder().decode(name.value), kind };
  } catch (error) {
    if (error instanceof DerError) return { ok: false, reason: "malformed" };
    throw error;
  }
};

/**
 * The identity of a device under a prefix: the prefix, then `deviceId` as UTF-8 percent-encoded, RFC 3986 unreserved characters
 * kept. A device id with a lone surrogate throws `URIError`; schemas refuse those before.
 */
export const composeIdentity = (prefix: string, deviceId: string): string =>
  prefix +
  encodeURIComponent(deviceId).replace(
    /[!'()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
