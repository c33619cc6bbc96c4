import { spawnSync } from "node:child_process";
import { describe, expect, it } from "vitest";
import { ConfigError } from "../../kit/env.ts";
import { listenFor, StartFault } from "./run-configured.ts";

const logged = (statement: string): string[] => {
  const module = new URL("./run-configured.ts", import.meta.url).href;
  const program = `import { createStdoutLog } from ${JSON.stringify(module)}; const log = createStdoutLog("info"); ${statement}`;
  const { stdout } = spawnSync(process.execPath, ["--input-type=module", "--eval", program], { encoding: "utf8" });
  return stdout.split(/[\n\r\u0085\u2028\u2029]/).filter((line) => line !== "");
};

describe("the log of a program", () => {
  it("I5: writes one JSON line per record, whatever a field holds", () => {
    const lines = logged(String.raw`log.info({ host: "a\r\nb\u2028c\u2029d\u0085e" }, "line\nbreak\u2028");`);
    expect(lines.length).toBe(1);
    expect(JSON.parse(lines[0] ?? "")).toMatchObject({
      level: "info",
      host: "a\r\nb\u2028c\u2029d\u0085e",
      msg: "line\nbreak\u2028",
    });
  });

  it("writes the causes of an error, and no property but code and message", () => {
    const [line] = logged(
      `const cause = Object.assign(new Error("refused"), { code: "ECONNREFUSED", secret: "hidden" });
       log.error({ err: new Error("Failed query: select 1\\nparams: hidden", { cause }) }, "failed");`,
    );
    expect(line).not.toContain("hidden");
    expect(JSON.parse(line ?? "").err).toMatchObject({
      message: "Failed query: select 1",
      cause: { code: "ECONNREFUSED", message: "refused" },
    });
  });
});

it.each([
  ["EACCES", ConfigError],
  ["EADDRINUSE", StartFault],
])("an address refused with %s names its variable", async (code, kind) => {
  const refused = listenFor("PORT", () => Promise.reject(Object.assign(new Error("listen"), { code })));
  await expect(refused).rejects.toThrow(kind);
  await expect(refused).rejects.toThrow("PORT: ");
});
