import { type Component, lazy } from "solid-js";
import { Dynamic } from "solid-js/web";
import { LazyPart } from "../design/report-parts.tsx";
import { RequiresScope } from "../session/session-gate.tsx";
import { createPageTitle } from "./page-title.ts";

/**
 * Returns the component of a route for operators with scope `audit`; others see which scope is missing. The page sets a title of its own
 * once it is loaded.
 */
export const auditRoute = (title: string, Page: Component): Component => {
  const Route = () => {
    createPageTitle(() => title);
    return (
      <RequiresScope scope="audit">
        <LoadedPage page={Page} />
      </RequiresScope>
    );
  };
  return Route;
};

/** Shows a page once its script is there, or that it cannot be loaded. */
const LoadedPage = (props: { page: Component }) => (
  <LazyPart what="The page">
    <Dynamic component={props.page} />
  </LazyPart>
);

/** Returns the component of a route for everyone, with a page that is loaded on demand. */
export const lazyRoute = (load: () => Promise<Component>): Component => {
  const Page = lazy(async () => ({ default: await load() }));
  return () => <LoadedPage page={Page} />;
};

/** Returns `auditRoute` of a page that is loaded on demand. */
export const lazyAuditRoute = (title: string, load: () => Promise<Component>): Component =>
  auditRoute(
    title,
    lazy(async () => ({ default: await load() })),
  );
