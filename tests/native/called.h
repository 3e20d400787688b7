/* Included before each source of the library, notes which functions of ONNX Runtime it calls, and
   which of its own are entered. */
__attribute__((weak, visibility("default"))) char called[415];
#define ORT_CALLED(number) (called[number] = 1)
__attribute__((weak, visibility("default"))) char called_of_provider[42];
#define ORT_EP_CALLED(number) (called_of_provider[number] = 1)

/* The compiler calls the first one at the start of each function, and the second one at its end.
   They are hidden, as the C library has functions of these names, which do nothing. */
#define MOST_ENTERED 400
__attribute__((weak, visibility("default"))) void *entered[MOST_ENTERED];
__attribute__((weak, visibility("hidden"), no_instrument_function)) void
__cyg_profile_func_enter(void *function, void *site);
__attribute__((weak, visibility("hidden"), no_instrument_function)) void
__cyg_profile_func_enter(void *function, void *site) {
    int k = 0;
    (void)site;
    while (k < MOST_ENTERED - 1 && entered[k] && entered[k] != function) k++;
    entered[k] = function;
}
__attribute__((weak, visibility("hidden"), no_instrument_function)) void
__cyg_profile_func_exit(void *function, void *site);
__attribute__((weak, visibility("hidden"), no_instrument_function)) void
__cyg_profile_func_exit(void *function, void *site) {
    (void)function;
    (void)site;
}
