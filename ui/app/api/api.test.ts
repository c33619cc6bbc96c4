import * as v from "valibot";
import { describe, expect, it } from "vitest";
import { createApi } from "./api.ts";
import { ApiProblem } from "./problem.ts";

const Answer = v.object({ count: v.number() });

/** The API over one answer, or over a fetch that fails. */
const apiOver = (answer: Response | Error) =>
  createApi({ fetch: () => (answer instanceof Error ? Promise.reject(answer) : Promise.resolve(answer)) });

const refusal = async (answer: Response | Error) => {
  const problem = await apiOver(answer)
    .get("/api/x", Answer)
    .catch((error: unknown) => error);
  if (!(problem instanceof ApiProblem)) throw problem;
  const { code, status, message, requestId } = problem;
  return { code, status, message, requestId };
};

describe("the API client", () => {
  it("gives the parsed answer", async () => {
    expect(await apiOver(Response.json({ count: 3, more: true })).get("/api/x", Answer)).toEqual({ count: 3 });
  });

  it("gives what it knows of the answer of a newer core", async () => {
    const Strict = v.strictObject({ rows: v.array(v.strictObject({ id: v.string() })) });
    const newer = { rows: [{ id: "a", since: 1 }, { id: "b" }], more: true };
    expect(await apiOver(Response.json(newer)).get("/api/x", Strict)).toEqual({ rows: [{ id: "a" }, { id: "b" }] });
    const other = apiOver(Response.json({ rows: [{ name: "a" }] })).get("/api/x", Strict);
    await expect(other).rejects.toMatchObject({ code: "unreadable" });
  });

  it("turns a problem document into a problem", async () => {
    const document = { title: "No", status: 403, detail: "Not you", code: "forbidden", request_id: "r1" };
    expect(await refusal(Response.json(document, { status: 403 }))).toEqual({
      code: "forbidden",
      status: 403,
      message: "Not you",
      requestId: "r1",
    });
  });

  it("says the status of what is no problem document, such as a proxy's page", async () => {
    const answer = new Response("<h1>Bad gateway</h1>", { status: 502, headers: { "X-Request-Id": "r2" } });
    expect(await refusal(answer)).toMatchObject({ code: "unreadable", status: 502, requestId: "r2" });
  });

  it("refuses an answer that is not what was agreed", async () => {
    expect(await refusal(Response.json({ count: "3" }))).toMatchObject({ code: "unreadable", status: 200 });
    expect(await refusal(new Response("{"))).toMatchObject({ code: "unreadable", status: 200 });
  });

  it("tells that nothing answers, or stops answering", async () => {
    expect(await refusal(new TypeError("Failed to fetch"))).toMatchObject({ code: "unreachable", status: 0 });
    const cut = new ReadableStream({ pull: (controller) => controller.error(new TypeError("network error")) });
    expect(await refusal(new Response(cut))).toMatchObject({ code: "unreachable", status: 0 });
  });

  it("passes on that it was given up", async () => {
    const signal = AbortSignal.abort();
    const api = apiOver(new DOMException("aborted", "AbortError"));
    await expect(api.get("/api/x", Answer, signal)).rejects.toMatchObject({ name: "AbortError" });
  });
});
