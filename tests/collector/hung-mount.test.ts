import { once } from "node:events";
import { join } from "node:path";
import { expect, it } from "vitest";
import { createTestLab } from "../support/deployment/lab.ts";
import { eventually } from "../support/eventually.ts";
import { findStored } from "../support/stored-envelopes.ts";
import { canHangMount, hangMount } from "./support/hung-mount.ts";

it.skipIf(!canHangMount())(
  "F4: a mount that hangs holds neither start nor stop nor other files, and core receives its name (needs root and FUSE)",
  async () => {
    const { sql, startCore, startEdge, writeToken, createHost, dir } = await createTestLab();
    const core = await startCore({ SVC_HEARTBEAT_INTERVAL: "11s" });
    const host = createHost("host-1", await startEdge(core), core);
    await writeToken(core);
    await host.enroll();
    const at = await hangMount();
    const patterns = Array.from({ length: 8 }, (_, index) => join(at, `${index}`, "*.log"));
    const hung = patterns.map((pattern) => ({ type: "file", include: [pattern] }));
    const log = join(dir, "host-1.log");
    await host.edit(
      ["sources"],
      [...hung, { type: "file", include: [log], start_at: "beginning" }],
    );
    await host.write("one");
    host.start();
    await eventually(async () =>
      expect((await findStored(sql)).map(({ text }) => text)).toEqual(["host-1 one"]),
    );
    await eventually(async () => {
      const [row] = await sql`select * from collector_health`;
      expect(JSON.stringify(row)).toContain(at);
    });
    const { child } = host.program() ?? {};
    child?.kill("SIGTERM");
    if (child) expect(await once(child, "exit")).toEqual([null, "SIGKILL"]);
  },
);
