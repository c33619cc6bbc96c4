import type { Page } from "playwright-core";
import { beforeAll, describe, expect, it } from "vitest";
import { systemClock } from "#kit/clock.ts";
import { people } from "#scripts/lab/people.ts";
import { expectAccessible } from "#tests/support/ui-states.ts";
import { type AdminUser, createAdminUser, failsWith } from "../admin/support/admin.ts";
import { createTestToken } from "../support/collector.ts";
import { isSlow } from "../support/is-slow.ts";
import { type TestWeb, useTestWeb } from "../support/web.ts";
import { follow, openTestBrowser, press, see, waitForHeading } from "../support/web-in-browser.ts";

/* Signs in with a real browser from a clean profile, through a provider that is another site, or another origin of the same site. */

/** Whose site the provider on 127.0.0.1 is to browsers, which web's host name decides. */
const sites = { "cross-site": "localhost", "same-site": "127.0.0.1" } as const;
type Site = keyof typeof sites;
const siteNames = Object.keys(sites) as Site[];

const { ui, browser } = await openTestBrowser();
const start = (hostname: (typeof sites)[Site]) =>
  useTestWeb({
    ui,
    hostname,
    clock: systemClock,
    env: { SVC_INFERENCE_CHAT_MODEL: "test-model" },
  });
const webs = { "cross-site": await start("localhost"), "same-site": await start("127.0.0.1") };
let hostId: string;
beforeAll(async () => {
  const { core } = webs["cross-site"];
  const { enroll } = await createTestToken(core);
  hostId = (await enroll("edge-1")).identityId;
});

/** A browser that has never been at web or at the provider. */
const cleanProfile = async () => {
  const context = await browser.newContext();
  context.setDefaultTimeout(20_000);
  return context.newPage();
};

/** Opens an address of web and signs in as a person does. Resolves once the browser has been back at web. */
const signIn = async (page: Page, address: string) => {
  await page.goto(address);
  await follow(page, "Sign in with Example ID");
  await press(page, people.admin.email);
  await page.waitForURL((url) => !url.pathname.startsWith("/interaction/"));
};

/** Returns what the browser said of the site of its latest navigation to `path`. */
const siteOf = (page: Page, path: string) => {
  let latest: Promise<Record<string, string>> | undefined;
  page.on("request", (request) => {
    if (request.isNavigationRequest() && new URL(request.url()).pathname === path)
      latest = request.allHeaders();
  });
  return async () => (await latest)?.["sec-fetch-site"];
};

const signedIn = async (
  user: AdminUser,
  { web, flow }: { web: TestWeb; flow: "browser" | "device" },
) => {
  const result = await user.run(
    "login",
    "--url",
    web.origin,
    ...(flow === "device" ? ["--device"] : []),
  );
  expect(result).toEqual(failsWith(0, `as ${people.admin.email}`));
  expect((await user.run("whoami")).out).toContain(people.admin.email);
};

/** The text of a page, for an assertion that shows what is there instead. */
const textOf = (page: Page) =>
  page
    .locator("body")
    .textContent()
    .then((text) => text ?? "");

describe("svc-admin login", () => {
  it.each(siteNames)(
    "V5: signs in by the browser from a clean profile, with a provider that is %s",
    async (site) => {
      const web = webs[site];
      const page = await cleanProfile();
      const seen = siteOf(page, "/cli/authorize");
      const allow = async (address: string) => {
        await signIn(page, address);
        expect(await textOf(page)).toContain("Sign in svc-admin on lovelace?");
        expect(await seen()).toBe(site);
        await press(page, "Allow");
        await see(page, "You can close this page");
      };
      const { promise: address, resolve: openBrowser } = Promise.withResolvers<string>();
      const user = createAdminUser({ openBrowser });
      await Promise.all([signedIn(user, { web, flow: "browser" }), address.then(allow)]);
    },
  );

  it.each(siteNames)(
    "V5: signs in by a device's code from a clean profile, with a provider that is %s",
    async (site) => {
      const web = webs[site];
      const page = await cleanProfile();
      const seen = siteOf(page, "/device");
      const approve = async (code: string) => {
        await signIn(page, `${web.origin}/device`);
        expect(await textOf(page)).toContain("Type the code that the device shows.");
        expect(await seen()).toBe(site);
        await page.getByLabel("Code").fill(code);
        await press(page, "Continue");
        await press(page, "Allow");
        await see(page, "The device is signed in");
      };
      const { promise: code, resolve: found } = Promise.withResolvers<string>();
      const user = createAdminUser({
        shown: (text) => found(/[A-Z]{4}-[A-Z]{4}/.exec(text)?.[0] ?? ""),
        clock: { ...systemClock, sleep: () => approved },
      });
      const approved = code.then(approve);
      await signedIn(user, { web, flow: "device" });
    },
  );

  it("V5: goes on to the consent page by itself for somebody who is signed in at the provider", async () => {
    const web = webs["cross-site"];
    const page = await cleanProfile();
    await signIn(page, `${web.origin}/device`);
    await page.context().clearCookies({ name: "svc_session" });
    await page.goto(`${web.origin}/device?user_code=BCDF-BCDF`);
    await follow(page, "Sign in with Example ID");
    await see(page, "No device waits for this code");
  });
});

describe("a page behind the sign-in", () => {
  const others = [
    "/fleet?chat=new",
    "/changes/audit?action=identity.revoke",
    "/changes/configs",
    "/changes/rollouts",
  ];
  it.each([
    "/",
    "/fleet?state=stale",
    "/hosts/:id",
    "/access/enrollment",
    ...(isSlow ? others : []),
  ])(
    "V5: is shown after a first sign-in that began at %s, with a provider on another site",
    async (path) => {
      const web = webs["cross-site"];
      const page = await cleanProfile();
      const address = path.replace(":id", hostId);
      const seen = siteOf(page, new URL(address, web.origin).pathname);
      await signIn(page, web.origin + address);
      await page.getByRole("navigation", { name: "Main" }).waitFor();
      expect(page.url()).toBe(web.origin + address);
      expect(await seen()).toBe("cross-site");
    },
  );

  it("V5: answers a refused navigation with a page that leads away", async () => {
    const web = webs["cross-site"];
    const page = await cleanProfile();
    await signIn(page, `${web.origin}/`);
    const elsewhere = (html: string) =>
      page.route("http://127.0.0.1:9/", (route) =>
        route.fulfill({ contentType: "text/html", body: html }),
      );
    await elsewhere(`<a href="${web.origin}/api/core/whoami">Look</a>
      <form method="post" action="${web.origin}/device"><button>Win</button></form>`);
    for (const [role, name] of [
      ["link", "Look"],
      ["button", "Win"],
    ] as const) {
      await page.goto("http://127.0.0.1:9/");
      await page.getByRole(role, { name }).click();
      await waitForHeading(page, "This request came from another site");
      await expectAccessible(page);
      await follow(page, "Go to the home page");
      await page.getByRole("navigation", { name: "Main" }).waitFor();
    }
  });

  it("A5: shows the pages that ask for consent in no frame", async () => {
    const web = webs["cross-site"];
    const page = await cleanProfile();
    await signIn(page, `${web.origin}/`);
    // A page of the same machine: Chromium lets one from a network reach nothing on loopback.
    await page.goto(`${web.identityProvider.issuer}/elsewhere`);
    const [answer] = await Promise.all([
      page.waitForResponse((response) => response.url() === `${web.origin}/device`),
      page.evaluate((src) => {
        const frame = Object.assign(document.createElement("iframe"), { src });
        document.body.append(frame);
      }, `${web.origin}/device`),
    ]);
    expect([answer.status(), answer.headers()["content-security-policy"]]).toEqual([
      403,
      expect.stringContaining("frame-ancestors 'none'"),
    ]);
  });
});
