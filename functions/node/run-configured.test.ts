import { spawn } from "node:child_process";
import { once } from "node:events";
import { expect, it, onTestFinished } from "vitest";
import { ConfigError } from "#kit/env.ts";
import { listenFor, StartFault } from "./run-configured.ts";

it("W4: a program whose stdout nothing reads serves on, and SIGTERM ends it with 0", async () => {
  const module = new URL("./run-configured.ts", import.meta.url).href;
  const program = `import { runConfigured, stopSignal } from ${JSON.stringify(module)};
    const serve = async (_config, log) => {
      for (let line = 0; line < 20_000; line++) log.info({ line }, "x".repeat(100));
      const stopped = stopSignal();
      process.stderr.write("serving");
      await stopped;
    };
    const parse = () => ({ config: { logLevel: "info" }, warnings: [] });
    process.exitCode = await runConfigured({ usage: "", parse, load: async () => 0, serve }, { env: {} });`;
  const args = ["--input-type=module", "--eval", program];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "pipe"] });
  onTestFinished(() => void child.kill("SIGKILL"));
  await once(child.stderr, "data");
  child.kill("SIGTERM");
  expect(await once(child, "exit")).toEqual([0, null]);
});

it.each([
  ["EACCES", ConfigError],
  ["EADDRINUSE", StartFault],
])("an address refused with %s names its variable", async (code, kind) => {
  const refused = listenFor("PORT", () =>
    Promise.reject(Object.assign(new Error("listen"), { code })),
  );
  await expect(refused).rejects.toThrow(kind);
  await expect(refused).rejects.toThrow("PORT: ");
});
