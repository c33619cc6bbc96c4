/** The largest form, in bytes: a token of a workload, or the codes of a sign-in, with room to spare. */
export const formBytesMax = 16 * 1024;

/** The media type of a form. */
export const formMediaType = "application/x-www-form-urlencoded";

/**
 * Returns the fields of a form (WHATWG URL, 5.1); undefined if its percent-encoding is invalid, or a field is repeated (RFC 6749, 3.2). Linear
 * in the length of the text, which `URLSearchParams` of Node is not: 1 MiB of `a&a&…` takes it 3 s.
 */
export const parseForm = (text: string): Record<string, string> | undefined => {
  const fields = new Map<string, string>();
  try {
    for (const pair of text.split("&")) {
      if (pair === "") continue;
      const at = pair.indexOf("=");
      const name = decode(at < 0 ? pair : pair.slice(0, at));
      if (fields.has(name)) return undefined;
      fields.set(name, at < 0 ? "" : decode(pair.slice(at + 1)));
    }
  } catch {
    return undefined;
  }
  return Object.fromEntries(fields);
};

const decode = (text: string) => decodeURIComponent(text.replaceAll("+", " "));
