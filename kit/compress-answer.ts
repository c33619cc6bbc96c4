/** A content coding (RFC 9110, 8.4.1). Without `compress`, the runtime compresses responses with the header, as workerd does. */
export interface ContentCoding {
  name: string;
  compress?(body: ReadableStream<Uint8Array>): ReadableStream<Uint8Array>;
}

const compressed = /^(application\/(json|yaml)|text\/(csv|x-ndjson))(;|$)/;

/**
 * Compresses the data of a successful GET as a stream, by the first of `codings` that the client accepts. Does not compress responses that must
 * not be buffered, nor pages and responses to other methods: there the length could reveal a secret next to an attacker's text (BREACH).
 */
export const compressAnswer = (
  request: Request,
  answer: Response,
  codings: readonly ContentCoding[],
) => {
  const { headers, status } = answer;
  if (
    request.method !== "GET" ||
    status !== 200 ||
    !compressed.test(headers.get("Content-Type") ?? "")
  )
    return answer;
  if (headers.has("Content-Encoding") || headers.get("X-Accel-Buffering") === "no") return answer;
  headers.append("Vary", "Accept-Encoding");
  const names = acceptedCodings(request.headers.get("Accept-Encoding") ?? "");
  const coding = codings.find(({ name }) => names.includes(name));
  if (coding === undefined) return answer;
  // Only now, because reading `body` creates a stream: for every response to a pipeline of requests, these would fill the memory.
  const { body } = answer;
  if (body === null) return answer;
  headers.set("Content-Encoding", coding.name);
  return new Response(coding.compress?.(body) ?? body, answer);
};

/** Returns the names of the codings that an `Accept-Encoding` header accepts. */
export const acceptedCodings = (header: string): (string | undefined)[] =>
  header
    .split(",")
    .filter((coding) => !/;\s*q=0(\.0*)?\s*$/.test(coding))
    .map((coding) => coding.split(";")[0]?.trim());
