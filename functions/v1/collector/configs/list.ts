import * as v from "valibot";
import type { Core } from "../../../core.ts";
import { browseConfigs } from "../../../domain/config/publish.ts";
import { scope } from "../../../http/guards.ts";
import { createList, ListView, listFields } from "../../../http/list.ts";
import { route } from "../../../http/route.ts";
import { ConfigView, configView } from "./config.ts";

/** `GET /v1/collector/configs`: the published configs, newest first, without their text. */
export const listConfigsRoute = (core: Pick<Core, "config" | "db" | "clock">) => {
  const list = createList(core.config, "configs");
  return route({
    method: "GET",
    path: "/v1/collector/configs",
    operationId: "listCollectorConfigs",
    summary: "Published collector configs, newest first",
    guard: scope(core, "admin"),
    query: v.strictObject(listFields),
    replies: { 200: { description: "A page of configs", schema: ListView(ConfigView) } },
    handle: ({ query }) => list(query, (page) => browseConfigs(core, page), configView),
  });
};
