import type { Core } from "#functions/core.ts";
import { readSetup } from "#functions/domain/enrollment/setup.ts";
import { scope } from "#functions/http/guards.ts";
import { route } from "#functions/http/route.ts";
import { Setup } from "#proto/operator/setup.ts";

/** `GET /v1/collector/setup`: which steps to the first host are done (docs/admin.md). */
export const setupRoute = (core: Pick<Core, "config" | "db" | "clock" | "signer">) =>
  route({
    method: "GET",
    path: "/v1/collector/setup",
    operationId: "getSetup",
    summary: "Which steps of a new deployment are done, until its first host has enrolled",
    guard: scope(core, "audit"),
    replies: {
      200: { description: "The steps, and what fills in the command of a host", schema: Setup },
    },
    handle: async () => ({ status: 200, body: await readSetup(core) }),
  });
