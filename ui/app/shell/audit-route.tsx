import type { Component } from "solid-js";
import { Dynamic } from "solid-js/web";
import { lazyPart, PartBoundary } from "../design/report-parts.tsx";
import { RequiresScope } from "../session/session-gate.tsx";
import { createPageTitle } from "./page-title.ts";

const what = "The page";

/**
 * Returns the component of a route for operators with scope `audit`; others see which scope is missing. The page sets a title of its own
 * once it is loaded.
 */
export const auditRoute = (title: string, Page: Component): Component => {
  const Route = () => {
    createPageTitle(() => title);
    return (
      <RequiresScope scope="audit">
        <PartBoundary what={what}>
          <Dynamic component={Page} />
        </PartBoundary>
      </RequiresScope>
    );
  };
  return Route;
};

/** Returns the component of a route for everyone, with a page that is loaded on demand. */
export const lazyRoute = (load: () => Promise<Component>): Component => lazyPart(what, load);

/** Returns `auditRoute` of a page that is loaded on demand. */
export const lazyAuditRoute = (title: string, load: () => Promise<Component>): Component =>
  auditRoute(title, lazyRoute(load));
