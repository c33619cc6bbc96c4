import { useLocation } from "@solidjs/router";
import { createEffect, For, on, Show } from "solid-js";
import { type Place, places } from "../browser/places.ts";
import { PopoverMenu } from "../design/buttons.tsx";
import { Icon } from "../design/icon.tsx";
import { lazyPart } from "../design/lazy-part.tsx";
import { usePageContext } from "../session/page-context.tsx";

/** What is left of the places without scope `audit`. */
const openPlaces: readonly Place[] = [{ name: "Now", pages: { Overview: "/" } }];

const MenuContent = lazyPart(
  "The menu",
  async () => (await import("./menu-content.tsx")).MenuContent,
);

/** Creates what the person may see of the places, and how their links are current. */
export const createNavigation = () => {
  const { session } = usePageContext();
  const location = useLocation();
  const seesFleet = () => session()?.scopes.includes("audit") ?? true;
  return {
    seesFleet,
    seen: () => (seesFleet() ? places : openPlaces),
    /** Entries keep their place, unseen, until the session is known: nothing moves then. */
    unknown: () => (session() === undefined ? "" : undefined),
    /** Returns how a link to a path is current; a record below it, such as a host of the fleet, marks it too. */
    current: (path: string) => {
      if (location.pathname === path) return "page";
      const below = path === "/fleet" ? "/hosts/" : `${path}/`;
      return location.pathname.startsWith(below) ? "true" : undefined;
    },
  };
};

/** The places of the navigation, each as a link to its first page. */
export const Places = () => {
  const { seen, unknown, current } = createNavigation();
  return (
    <nav class="shell-places" aria-label="Main" data-unknown={unknown()}>
      <For each={seen()}>
        {({ name, pages }) => {
          const [first = "", ...others] = Object.values(pages);
          return (
            <a
              href={first}
              aria-current={current(first) ?? (others.some(current) ? "true" : undefined)}
            >
              {name}
            </a>
          );
        }}
      </For>
    </nav>
  );
};

/** The pages of the place that is shown, if it has several. */
export const PagesOfPlace = () => {
  const { seen, unknown, current } = createNavigation();
  const shown = () =>
    seen().find(({ pages }) => {
      const paths = Object.values(pages);
      return paths.length > 1 && paths.some(current);
    });
  return (
    <Show when={shown()}>
      {(place) => (
        <nav class="shell-pages" aria-label={place().name} data-unknown={unknown()}>
          <PlacePages of={place()} />
        </nav>
      )}
    </Show>
  );
};

/** The pages of a place. */
export const PlacePages = (props: { of: Place }) => {
  const { current } = createNavigation();
  return (
    <For each={Object.entries(props.of.pages)}>
      {([name, path]) => (
        <a href={path} aria-current={current(path)}>
          {name}
        </a>
      )}
    </For>
  );
};

/** The person's menu, loaded when it is opened. */
export const Menu = () => {
  const { state, session } = usePageContext();
  const location = useLocation();
  const close = () => document.getElementById("menu")?.hidePopover();
  createEffect(on(() => location.pathname + location.hash, close, { defer: true }));
  return (
    <div data-unknown={state().status === "loading" ? "" : undefined}>
      <PopoverMenu
        id="menu"
        class="shell-menu"
        button="Menu"
        face={
          <>
            <span class="shell-person">{session()?.user.email}</span>
            Menu <Icon name="menu" />
          </>
        }
      >
        <MenuContent />
      </PopoverMenu>
    </div>
  );
};
