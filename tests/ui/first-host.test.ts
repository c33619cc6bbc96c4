import { describe, expect, it } from "vitest";
import { systemClock } from "#kit/clock.ts";
import { flawsOf } from "#tests/support/ui-states.ts";
import { createTestToken, identityPrefix } from "../support/collector.ts";
import { expectCount, see, startWebInBrowser, waitForHeading } from "../support/web-in-browser.ts";

const env = {
  SVC_INGEST_GRPC_ADDR: "0.0.0.0:8443",
  SVC_INGEST_SERVER_CERT_FILE: "/etc/svc/ingest.crt",
  SVC_INGEST_SERVER_KEY_FILE: "/etc/svc/ingest.key",
  SVC_INGEST_CLIENT_CA_FILE: "/etc/svc/ca.crt",
  SVC_ADVERTISED_CORE_URL: "https://core.example.com",
  SVC_ADVERTISED_INGEST_ADDR: "core.example.com:8443",
};
const { web, visit } = await startWebInBrowser({ clock: systemClock, core: { env } });

describe("the fleet page without hosts", () => {
  it("tells an auditor whom to ask before anything else, and shows no command to copy and no empty chart", async () => {
    const { page, layoutShift } = await visit("/fleet", {
      width: 390,
    });
    await see(page, "ask a member of the directory’s group");
    const heading = await page
      .getByRole("heading", { name: "No host is enrolled yet" })
      .boundingBox();
    expect(heading?.y).toBeLessThan(260);
    expect(await page.locator(".charts, .state-bar, .fleet-tools").count()).toBe(0);
    expect(await layoutShift()).toBe(0);
    expect(await page.locator(".command").count()).toBe(0);
    await page.goto("/data/completeness");
    await see(page, "No hour has settled yet: no host is enrolled.");
    await expectCount(page.getByRole("link", { name: "Show the last 7 days" }), 0);
    await page.goto("/system");
    await waitForHeading(page, "Cores");
    await see(page, /^None\.$/);
  });

  it("shows an admin the missing steps and the commands, without a secret, until the first host enrolls", async () => {
    const { page, messages } = await visit("/fleet", { as: "admin" });
    await waitForHeading(page, "No host is enrolled yet");
    const steps = page.locator(".first-host-steps li");
    await expectCount(steps, 6);
    expect(await steps.filter({ hasText: "missing" }).allTextContents()).toEqual([
      expect.stringContaining("Enrollment policy: missing"),
      expect.stringContaining("Bootstrap token: missing"),
      expect.stringContaining("First host: missing"),
    ]);
    const commands = page.locator(".command code");
    expect(await commands.first().textContent()).toBe(`svc-admin init --url ${web.origin}`);
    expect(await commands.last().textContent()).toContain("--core https://core.example.com");

    const { token, enroll } = await createTestToken({
      api: web.core.api,
      clock: { ...web.clock, advance: async () => undefined },
    });
    await page.reload();
    await expect
      .poll(() => commands.last().textContent())
      .toContain(`--identity-prefix ${identityPrefix}`);
    expect(await page.content()).not.toContain(token);
    await enroll("first");
    await page.reload();
    await page.getByRole("row", { name: /first/ }).waitFor();
    expect(messages).toEqual([]);
  });
});

it("a refused host is found by its name, with the reason, also where others share its address", async () => {
  const { enroll } = await createTestToken(
    { api: web.core.api, clock: { ...web.clock, advance: async () => undefined } },
    { allowed_identity_prefixes: ["https://fleet.test/other/"] },
  );
  for (const deviceId of ["lost-7", "lost-8"])
    await expect(enroll(deviceId)).rejects.toThrow(
      "The policy allows https://fleet.test/other/ followed by the device id",
    );
  for (const path of [
    "/fleet?q=LOST-8",
    "/fleet?device=lost-8",
    "/hosts/lost-8",
    "/access/enrollment",
  ]) {
    const { page, messages } = await visit(path);
    const refused = page.getByRole("region", { name: /^Refused enrollments/ });
    await see(refused, "lost-8");
    await see(refused, "identity_not_allowed");
    expect(await refused.getByText("lost-7").count()).toBe(path === "/access/enrollment" ? 1 : 0);
    expect([path, await flawsOf(page), messages]).toEqual([path, [], []]);
  }
});
