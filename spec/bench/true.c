/* SPDX-License-Identifier: MIT */
/* The shortest command there is. */
int main(void) {
  return 0;
}
