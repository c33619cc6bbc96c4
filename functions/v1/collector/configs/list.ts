import * as v from "valibot";
import { ConfigList } from "../../../../proto/fleet-health/config-report.ts";
import { Identifier } from "../../../../proto/management/text.ts";
import type { Core } from "../../../core.ts";
import { browseConfigs } from "../../../domain/config/config-reports.ts";
import { scope } from "../../../http/guards.ts";
import { createList, listFields } from "../../../http/resource.ts";
import { route } from "../../../http/route.ts";
import { listedConfigView } from "./config.ts";

/** The query fields that select configs: `q` is part of a name, or the start of a hash. */
export const configFilterFields = { q: v.optional(Identifier(120)) };

/** `GET /v1/collector/configs`: the published configs, newest first, without their text, and their hosts. */
export const listConfigsRoute = (core: Pick<Core, "config" | "db" | "clock">) => {
  const list = createList(core.config, "configs");
  return route({
    method: "GET",
    path: "/v1/collector/configs",
    operationId: "listCollectorConfigs",
    summary: "Published collector configs, newest first, and how many hosts should run and do run each",
    guard: scope(core, "audit"),
    query: v.strictObject({ ...configFilterFields, ...listFields }),
    replies: { 200: { description: "A page of configs", schema: ConfigList } },
    handle: ({ query }) => list(query, (page) => browseConfigs(core, query.q, page), listedConfigView),
  });
};
