import { execFile } from "node:child_process";
import { expect, it } from "vitest";

const program = "tests/support/throw-in-listeners.ts";

it("W1: a callback that throws ends its request alone, with one report, in each layer of each listener", async () => {
  const { code, stdout, stderr } = await new Promise<{ code: unknown; stdout: string; stderr: string }>((resolve) =>
    execFile(process.execPath, [program], (error, stdout, stderr) => resolve({ code: error?.code, stdout, stderr })),
  );
  const records = stdout
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line));
  const drained = records.pop();
  expect(records.map(({ msg, received, next, usual }) => ({ msg, received, next, usual }))).toEqual(
    records.map(({ msg, usual }) => ({
      msg,
      received: [msg],
      next: usual,
      usual: expect.stringMatching(/^(200|\{\})$/),
    })),
  );
  expect(records.length).toBe(204);
  // What nothing contains stops the program, after its other requests.
  expect({ drained, code, stderr }).toEqual({
    drained: { msg: "drained", received: ["escaped"], answer: "200" },
    code: 1,
    stderr: "",
  });
});
