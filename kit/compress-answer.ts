/** A content coding (RFC 9110, 8.4.1). Without `compress` the runtime compresses what has the header, as workerd does. */
export interface ContentCoding {
  name: string;
  compress?(body: ReadableStream<Uint8Array>): ReadableStream<Uint8Array>;
}

const compressed = /^(application\/(json|yaml)|text\/(csv|x-ndjson))(;|$)/;

/**
 * Compresses data that answers a GET by the first of `codings` that the client accepts, as a stream. Not what must leave at once,
 * nor pages and answers to other methods: there a secret may stand beside what a stranger chose, and its length tells it (BREACH).
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
  const asked = request.headers.get("Accept-Encoding");
  const parts = (asked ?? "").split(",").filter((part) => !/;\s*q=0(\.0*)?\s*$/.test(part));
  const names = parts.map((part) => part.split(";")[0]?.trim());
  const coding = codings.find(({ name }) => names.includes(name));
  if (coding === undefined) return answer;
  // Makes a stream: of answers to a pipeline of requests that would fill the memory.
  const { body } = answer;
  if (body === null) return answer;
  headers.set("Content-Encoding", coding.name);
  return new Response(coding.compress?.(body) ?? body, answer);
};
