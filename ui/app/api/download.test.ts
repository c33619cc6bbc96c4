import { afterEach, expect, it, vi } from "vitest";
import { ApiProblem } from "./api-client.ts";
import { downloadFile } from "./download.ts";

afterEach(() => void vi.useRealTimers());

const part = (text: string) => new TextEncoder().encode(text);
const csv = {
  "Content-Type": "text/csv; charset=utf-8; header=present",
  "Content-Disposition": 'attachment; filename="fleet-stale.csv"',
};
/** A body that sends parts, and then ends, breaks off or stays open. */
const bodyOf = (parts: string[], end: "closes" | "breaks" | "hangs") =>
  new ReadableStream<Uint8Array>({
    pull(controller) {
      const next = parts.shift();
      if (next !== undefined) controller.enqueue(part(next));
      else if (end === "closes") controller.close();
      else if (end === "breaks") controller.error(new TypeError("network error"));
      else return new Promise(() => undefined);
    },
  });
const download = (response: Response, signal = new AbortController().signal) => {
  const progress: number[] = [];
  const file = downloadFile({ send: async () => response }, "/api/core/x.csv", {
    signal,
    name: "file",
    onProgress: (bytes) => progress.push(bytes),
  });
  return { file, progress };
};

it("returns a file that arrived whole, with the server's name and every byte", async () => {
  const { file, progress } = download(
    new Response(bodyOf(["a,b\r\n", "1,2\r\n"], "closes"), { headers: csv }),
  );
  const { name, content } = await file;
  expect([name, await content.text()]).toEqual(["fleet-stale.csv", "a,b\r\n1,2\r\n"]);
  expect(progress).toEqual([5, 10]);
  const unnamed = await download(new Response(bodyOf(["{}"], "closes"))).file;
  expect([unnamed.name, await unnamed.content.text()]).toEqual(["file", "{}"]);
});

it("rejects a transfer that breaks off", async () => {
  const { file } = download(
    new Response(bodyOf(["a,b\r\n", "1,2\r\n"], "breaks"), { headers: csv }),
  );
  await expect(file).rejects.toMatchObject({
    code: "incomplete",
    message: "The transfer was cut off",
  });
});

it("rejects a CSV that ends in the middle of a record, as behind a proxy that hides a broken transfer", async () => {
  const { file } = download(new Response(bodyOf(["a,b\r\n", "1,"], "closes"), { headers: csv }));
  await expect(file).rejects.toMatchObject({
    message: "The file ended in the middle of a record",
  });
  const lineBreakInTwoParts = new Response(bodyOf(["a\r", "\n"], "closes"), { headers: csv });
  expect((await download(lineBreakInTwoParts).file).content.size).toBe(3);
});

it("rejects a transfer that stays silent for 40 s", async () => {
  vi.useFakeTimers();
  const { file } = download(new Response(bodyOf(["a,b\r\n"], "hangs"), { headers: csv }));
  const ended = expect(file).rejects.toMatchObject({ message: "No data arrived for 40 s" });
  await vi.advanceTimersByTimeAsync(40_000);
  await ended;
});

it("rejects with the server's problem, and with the reason of a cancel", async () => {
  const problem = new ApiProblem({
    code: "database_unavailable",
    status: 503,
    message: "The database is away",
  });
  const refused = downloadFile({ send: () => Promise.reject(problem) }, "/x", {
    signal: new AbortController().signal,
    name: "file",
    onProgress: () => undefined,
  });
  await expect(refused).rejects.toBe(problem);
  const cancel = new AbortController();
  const { file } = download(new Response(bodyOf(["a"], "hangs"), { headers: csv }), cancel.signal);
  setImmediate(() => cancel.abort(new Error("cancelled")));
  await expect(file).rejects.toThrow("cancelled");
});
