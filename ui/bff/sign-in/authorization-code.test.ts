import { expect, it } from "vitest";
import { systemClock } from "#kit/clock.ts";
import { Secret } from "#kit/secret.ts";
import { coreEnvironment } from "#scripts/lab/core-environment.ts";
import { startLoopbackServer } from "#scripts/lab/loopback-server.ts";
import { parseWebConfig } from "../config.ts";
import { createAuthorizationCode } from "./authorization-code.ts";

it("authenticates with the newest client secret, which its file may have replaced", async () => {
  const { server, url, close } = await startLoopbackServer();
  const received: (string | undefined)[] = [];
  server.on("request", (request, response) => {
    received.push(request.headers.authorization);
    response.setHeader("content-type", "application/json");
    response.end('{"access_token":"a","id_token":"i","token_type":"Bearer"}');
  });
  const { config } = parseWebConfig(
    {
      ...coreEnvironment("postgres://unused"),
      WEBAUTH_URL: "https://fleet.test",
      WEBAUTH_SECRET: "s".repeat(32),
      IDP_CLIENT_ID: "web",
      IDP_CLIENT_SECRET: "old",
      SVC_API_URL: "http://core.test/v1",
    },
    () => "",
  );
  const flow = createAuthorizationCode({ config, clock: systemClock });
  const exchange = () => flow.exchange(`${url}/token`, { code: "c", codeVerifier: "v" });
  await exchange();
  config.identityProvider.clientSecret.replaceBy(new Secret("new"));
  await exchange();
  await close();
  expect(received).toEqual([`Basic ${btoa("web:old")}`, `Basic ${btoa("web:new")}`]);
});
