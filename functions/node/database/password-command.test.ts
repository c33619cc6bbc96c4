import { appendFileSync, chmodSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { createTestClock } from "#tests/fakes/clock.ts";
import { createTestLog } from "#tests/fakes/log.ts";
import { newFolder } from "#tests/support/new-folder.ts";
import { createPasswordCommand } from "./password-command.ts";

it("does not keep a password that was refused while the program ran", async () => {
  const dir = newFolder();
  const at = (name: string) => join(dir, name);
  // Prints how many runs there were, once as many lines are in `ends`.
  writeFileSync(
    at("program"),
    `#!/bin/sh
echo >> ${at("runs")}; runs=$(wc -l < ${at("runs")})
until [ "$(wc -l < ${at("ends")})" -ge "$runs" ]; do sleep 0.01; done
echo "$runs"
`,
  );
  chmodSync(at("program"), 0o755);
  writeFileSync(at("ends"), "");
  const end = () => appendFileSync(at("ends"), "\n");
  const started = (runs: number) =>
    expect
      .poll(() => (existsSync(at("runs")) ? readFileSync(at("runs"), "utf8").length : 0))
      .toBe(runs);
  const { next, forget } = createPasswordCommand(at("program"), createTestLog(), createTestClock());

  const first = next();
  await started(1);
  forget();
  end();
  expect(await first).toBe("1");
  end();
  expect([await next(), await next()]).toEqual(["2", "2"]);
});
