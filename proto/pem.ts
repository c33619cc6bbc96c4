/**
 * Decodes PEM (RFC 7468) of a peer, strictly: `text` must be one block of this label, with nothing but white space around it; undefined
 * otherwise. Linear in the length of `text`.
 */
export const decodePem = (text: string, label: string): Uint8Array<ArrayBuffer> | undefined => {
  const block = text.trim();
  const begin = `-----BEGIN ${label}-----`;
  const end = `-----END ${label}-----`;
  if (!block.startsWith(begin) || !block.endsWith(end)) return undefined;
  return decodeBody(block.slice(begin.length, -end.length));
};

/**
 * Decodes PEM of local files, such as CA bundles: every block of this label in order; ignores text between blocks. Undefined if a
 * block is malformed.
 */
export const decodePemBundle = (
  text: string,
  label: string,
): Uint8Array<ArrayBuffer>[] | undefined => {
  const [, ...blocks] = text.split(`-----BEGIN ${label}-----`);
  const decoded: Uint8Array<ArrayBuffer>[] = [];
  for (const block of blocks) {
    const end = block.indexOf(`-----END ${label}-----`);
    const bytes = end < 0 ? undefined : decodeBody(block.slice(0, end));
    if (bytes === undefined) return undefined;
    decoded.push(bytes);
  }
  return decoded;
};

const decodeBody = (body: string): Uint8Array<ArrayBuffer> | undefined => {
  if (!body.startsWith("\n") && !body.startsWith("\r\n")) return undefined;
  try {
    return Uint8Array.fromBase64(body, { lastChunkHandling: "strict" });
  } catch {
    return undefined;
  }
};

/** Encodes `der` as PEM under `label`: lines of 64 characters, a newline at the end. */
export const encodePem = (der: Uint8Array, label: string): string => {
  const lines = der.toBase64().match(/.{1,64}/g) ?? [];
  return `-----BEGIN ${label}-----\n${lines.join("\n")}\n-----END ${label}-----\n`;
};
