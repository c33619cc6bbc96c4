/** A content coding (RFC 9110, 8.4.1). */
export interface ContentCoding {
  name: "zstd" | "br" | "gzip";
  /** Absent where the runtime compresses what has the header, as workerd does. */
  compress?(body: ReadableStream<Uint8Array>): ReadableStream<Uint8Array>;
}

const compressed = /^(application\/(json|yaml)|text\/(csv|x-ndjson))(;|$)/;
const bytesMin = 1024;

/**
 * Compresses data that answers a GET by the first of `codings` that the client accepts, as a stream. Not events, which must leave at once,
 * nor pages and answers to other methods: there a secret may stand beside what a stranger chose, and its length tells it (BREACH).
 */
export const compressAnswer = (request: Request, response: Response, codings: readonly ContentCoding[]): Response => {
  const { headers, status } = response;
  if (request.method !== "GET" || status !== 200 || !compressed.test(headers.get("Content-Type") ?? ""))
    return response;
  if (headers.has("Content-Encoding")) return response;
  headers.append("Vary", "Accept-Encoding");
  const accepts = acceptedBy(request.headers.get("Accept-Encoding") ?? "");
  const coding = codings.find(({ name }) => accepts(name));
  const length = headers.get("Content-Length");
  if (coding === undefined || response.body === null || (length !== null && Number(length) < bytesMin)) return response;
  const body = coding.compress ? coding.compress(response.body) : response.body;
  const answer = new Response(body, response);
  answer.headers.delete("Content-Length");
  answer.headers.set("Content-Encoding", coding.name);
  const etag = headers.get("ETag");
  // The bytes are others, and mean the same.
  if (etag !== null && !etag.startsWith("W/")) answer.headers.set("ETag", `W/${etag}`);
  return answer;
};

/** Returns whether an `Accept-Encoding` header accepts a coding. Linear in its length. */
const acceptedBy = (header: string): ((name: string) => boolean) => {
  const weights = new Map(
    header.split(",").map((part) => {
      const [name = "", ...parameters] = part.toLowerCase().split(";");
      const weight = parameters.map((text) => text.trim()).find((text) => text.startsWith("q="));
      return [name.trim(), weight === undefined ? 1 : Number(weight.slice(2))];
    }),
  );
  return (name) => (weights.get(name) ?? weights.get("*") ?? 0) > 0;
};
