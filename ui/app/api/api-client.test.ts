import * as v from "valibot";
import { afterEach, describe, expect, it, vi } from "vitest";
import { readMoment } from "../browser/moment.ts";
import { ApiProblem, createApiClient, createFetchAhead } from "./api-client.ts";

const Answer = v.object({ count: v.number() });

/** A client over one answer, or over a fetch that fails. */
const clientOver = (answer: Response | Error) =>
  createApiClient({
    fetch: () => (answer instanceof Error ? Promise.reject(answer) : Promise.resolve(answer)),
  });

const problemFrom = async (answer: Response | Error) => {
  const problem = await clientOver(answer)
    .get("/api/x", Answer)
    .catch((error: unknown) => error);
  if (!(problem instanceof ApiProblem)) throw problem;
  const { code, status, message, requestId } = problem;
  return { code, status, message, requestId };
};

afterEach(() => void vi.useRealTimers());

describe("the API client", () => {
  it("returns the parsed answer", async () => {
    expect(await clientOver(Response.json({ count: 3, more: true })).get("/api/x", Answer)).toEqual(
      { count: 3 },
    );
  });

  it("V4: dates moments of this machine by core's time, whatever this machine's clock says", async () => {
    vi.useFakeTimers({ now: 0, toFake: ["Date", "performance"] });
    const api = clientOver(
      Response.json({ count: 3 }, { headers: { "X-Core-Time": "2026-11-23T12:00:00.250Z" } }),
    );
    const asked = readMoment();
    expect(api.timeAt({ at: 5, tick: 5 })).toBe(5);
    vi.advanceTimersByTime(2000);
    await api.get("/api/x", Answer);
    expect(api.timeAt(asked)).toBe(Date.UTC(2026, 10, 23, 11, 59, 58, 250));
    vi.advanceTimersByTime(60_000);
    // Somebody sets this machine's clock back.
    vi.setSystemTime(-86_400_000);
    expect(api.timeAt(readMoment())).toBe(Date.UTC(2026, 10, 23, 12, 1, 0, 250));
  });

  it("returns the kept answer, with its new time, when the server says that it is unchanged", async () => {
    const time = "2026-11-28T12:00:00.000Z";
    const api = createApiClient({
      fetch: async (_, init) =>
        new Headers(init?.headers).get("If-None-Match") === 'W/"a"'
          ? new Response(null, { status: 304, headers: { "X-Generated-At": time } })
          : Response.json({ count: 3, generated_at: "" }, { headers: { ETag: 'W/"a"' } }),
    });
    const get = () => api.get("/api/x", v.object({ count: v.number(), generated_at: v.string() }));
    expect([await get(), await get()]).toEqual([
      { count: 3, generated_at: "" },
      { count: 3, generated_at: time },
    ]);
  });

  it("drops members that only a newer core sends", async () => {
    const Strict = v.strictObject({ rows: v.array(v.strictObject({ id: v.string() })) });
    const newer = { rows: [{ id: "a", since: 1 }, { id: "b" }], more: true };
    expect(await clientOver(Response.json(newer)).get("/api/x", Strict)).toEqual({
      rows: [{ id: "a" }, { id: "b" }],
    });
    const other = clientOver(Response.json({ rows: [{ name: "a" }] })).get("/api/x", Strict);
    await expect(other).rejects.toMatchObject({ code: "unreadable" });
  });

  it("rejects with the problem of a problem document", async () => {
    const document = {
      title: "No",
      status: 403,
      detail: "Not you",
      code: "forbidden",
      request_id: "r1",
    };
    expect(await problemFrom(Response.json(document, { status: 403 }))).toEqual({
      code: "forbidden",
      status: 403,
      message: "Not you",
      requestId: "r1",
    });
  });

  it("reports the status of an error without a problem document, such as a proxy's page", async () => {
    const answer = new Response("<h1>Bad gateway</h1>", {
      status: 502,
      headers: { "X-Request-Id": "r2" },
    });
    expect(await problemFrom(answer)).toMatchObject({
      code: "unreadable",
      status: 502,
      requestId: "r2",
    });
  });

  it("rejects an answer that does not match its schema", async () => {
    expect(await problemFrom(Response.json({ count: "3" }))).toMatchObject({
      code: "unreadable",
      status: 200,
    });
    expect(await problemFrom(new Response("{"))).toMatchObject({ code: "unreadable", status: 200 });
  });

  it("reports a server that does not answer, or stops answering", async () => {
    expect(await problemFrom(new TypeError("Failed to fetch"))).toMatchObject({
      code: "unreachable",
      status: 0,
    });
    const cut = new ReadableStream({
      pull: (controller) => controller.error(new TypeError("network error")),
    });
    expect(await problemFrom(new Response(cut))).toMatchObject({ code: "unreachable", status: 0 });
  });

  it("rejects with timeout after 8 s without an answer, without its body, or without the headers of a stream", async () => {
    vi.useFakeTimers();
    const silent = () => new Promise<Response>(() => undefined);
    const headersOnly = async () => new Response(new ReadableStream());
    const late = {
      code: "timeout",
      status: 0,
      message: "The web server did not answer within 8 s",
    };
    const stream = { method: "POST" } as const;
    const requests = [
      createApiClient({ fetch: silent }).get("/api/x", Answer),
      createApiClient({ fetch: headersOnly }).get("/api/x", Answer),
      createApiClient({ fetch: silent }).send("/api/x", stream),
    ].map((request) => expect(request).rejects.toMatchObject(late));
    let ended = false;
    const all = Promise.all(requests).then(() => {
      ended = true;
    });
    await vi.advanceTimersByTimeAsync(7_999);
    expect(ended).toBe(false);
    await vi.advanceTimersByTimeAsync(1);
    await all;
    const response = await createApiClient({ fetch: headersOnly }).send("/api/x", stream);
    const read = response.body?.getReader().read();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(await Promise.race([read, "still open"])).toBe("still open");
  });

  it("rejects with the abort reason once aborted", async () => {
    const signal = AbortSignal.abort();
    const client = clientOver(new DOMException("aborted", "AbortError"));
    await expect(client.get("/api/x", Answer, signal)).rejects.toMatchObject({
      name: "AbortError",
    });
  });
});

describe("fetching ahead", () => {
  /** Begins these requests, and returns the function that takes their answers. */
  const begin = (fetch: typeof globalThis.fetch, ...paths: string[]) => {
    const ahead = createFetchAhead(fetch);
    for (const path of paths) ahead.begin(path);
    return ahead.fetch;
  };

  it("gives an early answer to the first call for its path, and requests every other", async () => {
    const requested: string[] = [];
    const fetch = begin(async (input) => {
      requested.push(String(input));
      return Response.json(requested.length);
    }, "/report");
    expect(requested).toEqual(["/report"]);
    const bodies = [];
    for (const path of ["/session", "/report", "/report"])
      bodies.push(await (await fetch(path)).json());
    expect(bodies).toEqual([2, 1, 3]);
  });

  it("reads the body before the first call, whose reader finds it or why it is not JSON", async () => {
    const answers = [Response.json("early"), new Response("<html>")];
    const fetch = begin(async () => answers.shift() ?? Response.error(), "/report", "/broken");
    const report = await fetch("/report");
    const broken = await fetch("/broken");
    expect([report.bodyUsed, await report.json()]).toEqual([true, "early"]);
    await expect(broken.json()).rejects.toThrow(SyntaxError);
  });

  it("rejects the first call with an early failure, and leaves no rejection unhandled", async () => {
    const fetch = begin(() => Promise.reject(new TypeError("unreachable")), "/report");
    await new Promise((resolve) => setImmediate(resolve));
    await expect(fetch("/report")).rejects.toThrow("unreachable");
  });
});
