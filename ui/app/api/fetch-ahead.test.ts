import { describe, expect, it } from "vitest";
import { fetchAhead } from "./fetch-ahead.ts";

describe("fetching ahead", () => {
  it("gives an early answer to the first that asks, and asks again for everybody else", async () => {
    const asked: string[] = [];
    const ahead = fetchAhead(
      async (input) => {
        asked.push(String(input));
        return new Response(String(asked.length));
      },
      ["/report"],
    );
    expect(asked).toEqual(["/report"]);
    const texts = [];
    for (const path of ["/session", "/report", "/report"]) texts.push(await (await ahead(path)).text());
    expect(texts).toEqual(["2", "1", "3"]);
  });

  it("tells the first that asks of a failure, and nobody before", async () => {
    const ahead = fetchAhead(() => Promise.reject(new TypeError("unreachable")), ["/report"]);
    await new Promise((resolve) => setImmediate(resolve));
    await expect(ahead("/report")).rejects.toThrow("unreachable");
  });
});
