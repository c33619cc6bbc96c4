import { Router } from "@solidjs/router";
import type { Component } from "solid-js";
import { render } from "solid-js/web";
import { createApiClient, createFetchAhead } from "./api/api-client.ts";
import { pageNameOf, presentAddress } from "./browser/places.ts";
import { lazyPart } from "./design/lazy-part.tsx";
import { capitalised } from "./format/format.ts";
import { PageContextProvider } from "./session/page-context.tsx";
import { RequiresScope } from "./session/session-gate.tsx";
import { createPageTitle } from "./shell/page-title.ts";
import { NoSuchPage, Shell } from "./shell/shell.tsx";

/** Returns the component of a route, whose page is loaded on demand. */
const lazyRoute = (load: () => Promise<Component>): Component => lazyPart("The page", load);

/**
 * Returns the component of a route for operators with scope `audit`; others see which scope is missing. The page sets a title of its own
 * once it is loaded.
 */
const auditRoute = (path: string, load: () => Promise<Component>): Component => {
  const Page = lazyRoute(load);
  return () => {
    createPageTitle(() => capitalised(pageNameOf(path).replace(/\/.*/, "")));
    return (
      <RequiresScope scope="audit">
        <Page />
      </RequiresScope>
    );
  };
};

const ahead = createFetchAhead((...request) => fetch(...request));
ahead.begin("/api/session");

/** The report takes longer than the session, which decides what is shown: it is requested before anything is drawn. */
const beginFleetReport = async () => {
  const { fleetReportPath } = await import("./fleet/fleet-page.tsx");
  const path = fleetReportPath(location.search);
  if (path !== undefined) ahead.begin(path);
};
// A script that cannot be loaded is reported in place of the page.
if (location.pathname === "/fleet") beginFleetReport().catch(() => undefined);

/** The pages for operators with scope `audit`, which are loaded on demand, by their paths. */
const auditPages: Readonly<Record<string, () => Promise<Component>>> = {
  "/fleet": async () => (await import("./fleet/fleet-page.tsx")).FleetPage,
  "/hosts/:host": async () => (await import("./host/host-page.tsx")).HostPage,
  "/data/completeness": async () =>
    (await import("./completeness/completeness-page.tsx")).CompletenessPage,
  "/access/inventory": async () => (await import("./inventory/inventory-page.tsx")).InventoryPage,
  "/data/volume": async () => (await import("./volume/volume-page.tsx")).VolumePage,
  "/changes/audit": async () => (await import("./audit/audit-page.tsx")).AuditPage,
  "/changes/configs": async () => (await import("./configs/configs-page.tsx")).ConfigsPage,
  "/changes/configs/:id": async () => (await import("./configs/config-page.tsx")).ConfigPage,
  "/changes/rollouts": async () => (await import("./rollouts/rollouts-page.tsx")).RolloutsPage,
  "/changes/rollouts/:id": async () => (await import("./rollouts/rollout-page.tsx")).RolloutPage,
  "/access/enrollment": async () =>
    (await import("./enrollment/enrollment-page.tsx")).EnrollmentPage,
  "/watches": async () => (await import("./watches/watches-page.tsx")).WatchesPage,
  "/watches/:id": async () => (await import("./watches/watches-page.tsx")).WatchPage,
  "/watches/new": async () => (await import("./watches/watch-forms.tsx")).NewWatchPage,
  "/watches/:id/change": async () => (await import("./watches/watch-forms.tsx")).ChangeWatchPage,
  "/system": async () => (await import("./system/system-page.tsx")).SystemPage,
};

// Created once: a component made inside the JSX would be another one at each access.
const routes = [
  { path: "/", component: lazyRoute(async () => (await import("./now/now-page.tsx")).NowPage) },
  ...Object.entries(auditPages).map(([path, load]) => ({
    path,
    component: auditRoute(path, load),
  })),
  { path: "*", component: NoSuchPage },
];

const App = () => {
  // Not in the JSX, where each access would create another client.
  const api = createApiClient(ahead);
  return (
    <PageContextProvider api={api}>
      <Router root={Shell}>{routes}</Router>
    </PageContextProvider>
  );
};

// The router rejects an empty segment: an identity pasted as it is becomes one segment.
const shown = location.pathname.replace(
  /^\/hosts\/([^/]+:\/\/.+)$/,
  (_, pasted: string) => `/hosts/${encodeURIComponent(pasted)}`,
);
history.replaceState(null, "", presentAddress(shown) + location.search + location.hash);

const root = document.getElementById("root");
if (root === null) throw new Error("index.html has no #root");
render(() => <App />, root);
