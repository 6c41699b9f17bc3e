/** When so much was said that older lines were let go. */

import { screen } from "@testing-library/react";
import { expect, test, vi } from "vitest";
import { renderPage } from "@/test/kit";
import Logs from "./index";

const restart = vi.hoisted(() => vi.fn());
vi.mock("./lines", async (original) => ({
  ...(await original<object>()),
  useLines: () => ({ rows: [], loading: false, fetching: false, error: null, hasMore: false, loadMore: () => {}, loadingMore: false, refetch: () => {}, held: 0, gap: true, followProblem: null, restart }),
}));

test("it is said, and they can be loaded again", async () => {
  const { user } = renderPage(<Logs />);
  expect(await screen.findByText(/older ones were let go/)).toBeTruthy();
  await user.click(screen.getByRole("button", { name: "Load them again" }));
  expect(restart).toHaveBeenCalledOnce();
});
