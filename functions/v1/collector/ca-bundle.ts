import type { Core } from "#functions/core.ts";
import { admitProof } from "#functions/domain/certificate/authenticate.ts";
import { route } from "#functions/http/route.ts";
import { CaBundleRequest, CaBundleResponse } from "#proto/management/ca-bundle.ts";
import { collector, type ManagementCore, managementProblems } from "./collector-guard.ts";

/** `POST /v1/collector/ca-bundle`: the authorities by which the calling host is to verify a listener of core. */
export const caBundleRoute = (core: ManagementCore & Pick<Core, "caBundles">) =>
  route({
    method: "POST",
    path: "/v1/collector/ca-bundle",
    operationId: "fetchCaBundle",
    summary: "Fetch the newest CA bundle of a channel",
    guard: collector(core, "ca_bundle"),
    body: CaBundleRequest,
    replies: { 200: { description: "The bundle, or null", schema: CaBundleResponse } },
    problems: managementProblems,
    handle: async ({ body, caller, origin }) => {
      await admitProof(core, "ca_bundle", caller, origin);
      const { [body.channel]: bundle } = await core.caBundles.find();
      return { status: 200, body: { bundle } };
    },
  });
