import { type ApiClient, ApiProblem } from "./api-client.ts";

/** A file that has arrived whole. */
export interface DownloadedFile {
  name: string;
  content: Blob;
}

interface DownloadOptions {
  signal: AbortSignal;
  /** The name of a file that its response does not name. */
  name: string;
  /** Called with the bytes that have arrived. */
  onProgress(bytes: number): void;
}

/** Longer than web waits for core's next part. */
const silenceMs = 40_000;

/**
 * Downloads a file, and returns it only when it is complete. The browser stores its chunks, on disk when they are large, so the page's memory
 * does not grow. Rejects with an `ApiProblem` if the server rejects the request, if the transfer ends early or is silent for 40 s, or if a CSV
 * ends within a record; with the signal's reason after an abort.
 */
export const downloadFile = async (
  api: Pick<ApiClient, "send">,
  path: string,
  { signal, name, onProgress }: DownloadOptions,
): Promise<DownloadedFile> => {
  const stop = new AbortController();
  const either = AbortSignal.any([signal, stop.signal]);
  const response = await api.send(path, { method: "GET", signal: either });
  const type = response.headers.get("Content-Type") ?? "";
  const broken = (message: string) => new ApiProblem({ code: "incomplete", status: 0, message });
  let bytes = 0;
  let tail = "";
  const wait = () =>
    setTimeout(() => stop.abort(broken(`No data arrived for ${silenceMs / 1000} s`)), silenceMs);
  let timer = wait();
  const counted = new TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>({
    transform(part, controller) {
      clearTimeout(timer);
      timer = wait();
      bytes += part.length;
      tail = (tail + String.fromCharCode(...part.subarray(-2))).slice(-2);
      onProgress(bytes);
      controller.enqueue(part);
    },
  });
  try {
    const body = response.body?.pipeThrough(counted, { signal: either }) ?? null;
    const content = await new Response(body, { headers: { "Content-Type": type } }).blob();
    if (type.startsWith("text/csv") && tail !== "\r\n")
      throw broken("The file ended in the middle of a record");
    return { name: fileNameOf(response) ?? name, content };
  } catch (error) {
    if (signal.aborted) throw signal.reason;
    if (stop.signal.aborted) throw stop.signal.reason;
    if (error instanceof ApiProblem) throw error;
    throw broken("The transfer was cut off");
  } finally {
    clearTimeout(timer);
  }
};

const fileNameOf = (response: Response) =>
  /filename="([^"/\\]+)"/.exec(response.headers.get("Content-Disposition") ?? "")?.[1];
